"""An affine program and its plan -> the C project: network, kernels, weights, and the three ports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import nnkit
from nnkit.c.affine.call import pixels_and_channels, suffix
from nnkit.c.affine.catalogue import HEADER, header, kernel_files
from nnkit.c.sources import c_environment, tidy_source
from nnkit.c.text import comment_text, float32_literal, unique_identifiers
from nnkit.memory.plan import MemoryPlan
from nnkit.preprocess import Preprocess
from nnkit.program.affine import AffineProgram, AffineTensor
from nnkit_gap8.affine.code_size import kernels_of
from nnkit_gap8.affine.plan import AffinePlan
from nnkit_gap8.affine.tiling import SharedStep, TiledStep, tiled_step, tiling_constant
from nnkit_gap8.compile_flags import AFFINE_FLAGS, OPTIMISATION, PULP_NETWORK_FLAGS, RV32_FLAGS
from nnkit_gap8.emit import Network, Port, pictures_of, with_preprocessing
from nnkit_gap8.files import affine_tile_files, shared_files
from nnkit_gap8.network_code import RESERVED
from nnkit_gap8.steps import FetchView, address


@dataclass(frozen=True)
class AffineStep:
    """A call. waits: for its weights. tiled, shared: how it runs on the cluster; statement: on one core."""

    fetches_now: tuple[FetchView, ...]
    waits: bool
    prefetches: tuple[FetchView, ...]
    statement: str
    tiled: TiledStep | None = None
    shared: SharedStep | None = None


@dataclass(frozen=True)
class AffineLayer:
    """An op: its calls, and where its result lies, in bytes."""

    comment: str
    steps: tuple[AffineStep, ...]
    offset: int
    pixels: int
    pixel_bytes: int
    stride_bytes: int


def emit_affine_artifact(
    planned: AffinePlan, preprocess: Mapping[str, Preprocess] = MappingProxyType({})
) -> dict[str, bytes]:
    """The artifact's files by relative path. Deterministic. preprocess: of the inputs that are made of pictures."""
    network, plan, program = planned.network, planned.plan, planned.network.program
    statements = network.statements(planned.weights)
    names = _network(program, plan, network.prefix, planned.cores)
    in_tiles = planned.tiles is not None
    layers = _layers(planned)
    tile_files = affine_tile_files() if in_tiles else {}
    headers = ("nnkit_task.h",) if in_tiles else ()
    kernels = kernel_files(network.prefix, kernels_of(planned, statements), statements.structures, headers)
    more = (path for path in tile_files if path.endswith(".c"))
    sources = (f"{names.stem}.c", f"{names.stem}_kernels.c", *more)
    tilings = () if planned.tiles is None else planned.tiles.steps.items()
    ports = [*names.inputs, *names.outputs]
    tensors = [program.tensors[name] for name in (*program.inputs, *program.outputs)]
    identifiers = [port.identifier for port in ports]
    pictures = pictures_of(program, names, preprocess, channels_last=True)
    values: dict[str, Any] = {
        "n": with_preprocessing(names, program, pictures),
        "pictures": pictures,
        "layers": layers,
        "constants": statements.constants,
        "tilings": [tiling_constant(planned, statements, step, tiling) for step, tiling in tilings],
        "sources": sources,
        "scales": {name: float32_literal(t.scale) for name, t in zip(identifiers, tensors, strict=True)},
        "zero_points": {name: t.zero_point for name, t in zip(identifiers, tensors, strict=True)},
        "affine": True,
        "cluster": in_tiles,
        "optimisation": (*OPTIMISATION, *AFFINE_FLAGS),
        "rv32_flags": RV32_FLAGS,
        "pulp_flags": PULP_NETWORK_FLAGS,
    }
    environment = c_environment("nnkit_gap8", "templates")
    files = {name: text.encode() for name, text in (kernels | {HEADER: header()}).items()}
    templates = {
        f"{names.stem}.h": "affine_network.h.j2",
        f"{names.stem}.c": "affine_network.c.j2",
        "README.md": "README.md.j2",
    }
    files |= {path: tidy_source(environment, name, values).encode() for path, name in templates.items()}
    files |= tile_files
    files |= shared_files(environment, values)
    files["weights.bin"] = _weights(planned)
    description = pictures.recorded(_description(program, plan, names, sources, in_tiles=in_tiles))
    files["network.json"] = (json.dumps(description, indent=1) + "\n").encode()
    files |= {path: text.encode() for path, text in pictures.files.items()}
    return dict(sorted(files.items()))


def _layers(planned: AffinePlan) -> list[AffineLayer]:
    network, plan, program = planned.network, planned.plan, planned.network.program
    statements = network.statements(planned.weights)
    fetches: dict[int, list[int]] = {}
    for index, chunk in enumerate(plan.chunks):
        fetches.setdefault(chunk.fetch_step, []).append(index)

    def views(step: int, *, now: bool) -> tuple[FetchView, ...]:
        chunks = [plan.chunks[index] for index in fetches.get(step, ())]
        return tuple(
            FetchView(c.l3_offset_bytes, plan.buffers[c.buffer].offset_bytes, c.size_bytes, comment_text(c.op))
            for c in chunks
            if (c.step == step) == now
        )

    layers = []
    for index, op in enumerate(program.ops):
        tensor, place = program.tensors[op.output], network.layout.places[op.output]
        pixels, channels = pixels_and_channels(tensor.shape)
        size = tensor.format.bytes
        inputs = ", ".join(_shape(program.tensors[name]) for name in op.inputs)
        steps = []
        for step in network.steps_of[index]:
            way = tiled_step(planned, statements, step)
            steps.append(
                AffineStep(
                    views(step, now=True),
                    plan.steps[step].chunk is not None,
                    views(step, now=False),
                    statements.statement(step) if way is None else "",
                    way if isinstance(way, TiledStep) else None,
                    way if isinstance(way, SharedStep) else None,
                )
            )
        comment = comment_text(f"{op.name}: {op.kind} {inputs} -> {_shape(tensor)}")
        layers.append(
            AffineLayer(comment, tuple(steps), place.offset_bytes, pixels, channels * size, place.stride * size)
        )
    return layers


def _shape(tensor: AffineTensor) -> str:
    return f"{'x'.join(str(side) for side in tensor.shape) or '1'} {suffix(tensor)}"


def _network(program: AffineProgram, plan: MemoryPlan, stem: str, cores: int) -> Network:
    names = unique_identifiers((*program.inputs, *program.outputs), RESERVED)
    by_kind = {buffer.kind: buffer for buffer in plan.buffers.values()}
    context, stack = by_kind["context"], by_kind["stack"]
    code_bytes = by_kind["code"].size_bytes if "code" in by_kind else 0
    l1, l2, l3 = (plan.regions[name] for name in ("l1", "l2", "l3"))

    def port(role: str, name: str) -> Port:
        tensor = program.tensors[name]
        shape = tensor.shape
        lying = (shape[1], shape[2], shape[0]) if len(shape) == 3 else shape
        macro = f"{stem}_{names[name]}".upper()
        text = (
            f"{'x'.join(map(str, lying)) or '1'} {'height x width x channels, ' * (len(shape) == 3)}{suffix(tensor)}"
        )
        kind = f"nnkit_{suffix(tensor)}"
        offset, size = address(plan, name), tensor.size_bytes
        return Port(role, comment_text(name), names[name], macro, kind, text, tensor.elements, 0, offset, size)

    return Network(
        title=comment_text(program.name),
        version=nnkit.__version__,
        stem=stem,
        prefix=f"{stem}_",
        macro=stem.upper(),
        inputs=tuple(port("input", name) for name in program.inputs),
        outputs=tuple(port("output", name) for name in program.outputs),
        l2_pool_bytes=context.offset_bytes,
        l2_peak_bytes=stack.offset_bytes + stack.size_bytes,
        l2_capacity_bytes=l2.capacity_bytes - code_bytes,
        l1_bytes=l1.peak_bytes,
        l1_capacity_bytes=l1.capacity_bytes,
        l3_capacity_bytes=l3.capacity_bytes,
        weights_bytes=plan.l3_weight_bytes,
        code_bytes=code_bytes,
        context_offset=context.offset_bytes,
        stack_offset=stack.offset_bytes,
        stack_bytes=stack.size_bytes,
        cores=cores,
    )


def _weights(planned: AffinePlan) -> bytes:
    image = bytearray(planned.plan.l3_weight_bytes)
    for chunk in planned.plan.chunks:
        data = planned.network.weights(chunk.step)
        image[chunk.l3_offset_bytes : chunk.l3_offset_bytes + len(data)] = data
    return bytes(image)


def _description(
    program: AffineProgram, plan: MemoryPlan, names: Network, sources: tuple[str, ...], *, in_tiles: bool
) -> dict[str, Any]:
    """network.json: what a program needs to know to build, feed and trace the network."""

    def tensor(name: str) -> dict[str, Any]:
        value = program.tensors[name]
        form = {
            "bits": value.format.bits,
            "signed": value.format.signed,
            "scale": value.scale,
            "zero_point": value.zero_point,
        }
        layout = {"layout": "height, width, channels"} if len(value.shape) == 3 else {}
        place = {"bytes": value.size_bytes, "l2_offset": address(plan, name)}
        return {"name": name, "shape": list(value.shape), **layout, "format": form, **place}

    record: dict[str, Any] = {
        "nnkit": names.version,
        "name": names.title,
        "stem": names.stem,
        "scheme": "affine",
        "sources": list(sources),
        "flags": list(AFFINE_FLAGS),
        "cores": names.cores,
        **({"cluster": True} if in_tiles else {}),
        "inputs": [tensor(name) for name in program.inputs],
        "outputs": [tensor(name) for name in program.outputs],
        "ops": [{"name": op.name, "kind": op.kind, "output": tensor(op.output)} for op in program.ops],
        "memory": {
            "l1_bytes": names.l1_bytes,
            "l1_capacity_bytes": names.l1_capacity_bytes,
            "l2_pool_bytes": names.l2_pool_bytes,
            "l2_peak_bytes": names.l2_peak_bytes,
            "l2_capacity_bytes": names.l2_capacity_bytes,
            "context_offset": names.context_offset,
            "stack_offset": names.stack_offset,
            "stack_bytes": names.stack_bytes,
            "weights_bytes": names.weights_bytes,
            "l3_capacity_bytes": names.l3_capacity_bytes,
        },
    }
    if names.code_bytes:
        record["memory"]["code_bytes"] = names.code_bytes
    return record
