"""A Program and its MemoryPlan -> the C project: network, kernels, weights, and the three ports.

Everything is deterministic: the same program and plan give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import nnkit
from nnkit.c.fixed.catalogue import OperatorOf, kernel_sources, operator_c
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.types import chw, ctype
from nnkit.c.sources import c_environment, tidy_source
from nnkit.c.text import comment_text, identifier, unique_identifiers
from nnkit.errors import InternalError
from nnkit.memory.plan import MemoryPlan
from nnkit.preprocess import Preprocess
from nnkit.preprocess.from_pixels import Pictures
from nnkit.program import Fixed, Program
from nnkit_gap8.cluster.build import Cluster
from nnkit_gap8.compile_flags import OPTIMISATION, PULP_NETWORK_FLAGS, RV32_FLAGS
from nnkit_gap8.files import cluster_files, shared_files
from nnkit_gap8.network_code import RESERVED, network_code
from nnkit_gap8.step_table import NO_WAIT, step_table
from nnkit_gap8.steps import address, scratch_buffer

CONTEXT_BYTES = 16  # the network's context on a machine with 32-bit pointers
STACK_BYTES = 1024  # reserved in L2; `runners.Rv32Runner` proves that the code stays inside


@dataclass(frozen=True)
class Port:
    """An input or output of the network, as the templates use it. preprocessing: what is done to have an input."""

    role: str
    tensor: str
    identifier: str
    macro: str
    c: str
    shape: str
    elements: int
    frac: int
    offset: int
    bytes: int
    preprocessing: str = ""


@dataclass(frozen=True)
class Network:
    """Names and sizes that the templates share. Sizes in bytes. code_bytes: kept in L2 beside l2_capacity_bytes."""

    title: str
    version: str
    stem: str
    prefix: str
    macro: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    l2_pool_bytes: int
    l2_peak_bytes: int
    l2_capacity_bytes: int
    l1_bytes: int
    l1_capacity_bytes: int
    l3_capacity_bytes: int
    weights_bytes: int
    code_bytes: int
    context_offset: int
    stack_offset: int
    stack_bytes: int
    cores: int
    sources: tuple[str, ...] = ()


def emit_artifact(
    program: Program,
    plan: MemoryPlan,
    machine: CoreMachine,
    name: str | None = None,
    cluster: Cluster | None = None,
    *,
    as_table: bool = False,
    preprocess: Mapping[str, Preprocess] = MappingProxyType({}),
) -> dict[str, bytes]:
    """The artifact's files by relative path.

    Args:
        machine: what the kernels are cut for; the plan's scratch must be for as many cores.
        name: of the network in C; the program's name by default.
        cluster: where layers run in tiles; None: all kernels work on L2.
        as_table: the steps as a table, which takes less memory for code, and not written out as calls.
        preprocess: of the inputs that are made of pictures.

    Raises InternalError when plan and program do not belong together.
    """
    operator_of = operator_c if cluster is None else cluster.operators(plan)
    _check(program, plan, machine, operator_of)
    network = network_of(program, plan, machine, name or program.name)
    files: dict[str, bytes] = {"weights.bin": _weights(program, plan, operator_of)}
    sources = kernel_sources(program, network.title, network.stem, operator_of)
    code = network_code(program, plan, machine, cluster, as_table=as_table)
    files |= {path: text.encode() for path, text in sources.items()}
    tile_files = {} if cluster is None else cluster_files()
    files |= tile_files
    generated = [*sources, *tile_files]
    network_sources = tuple(sorted([f"{network.stem}.c", *(path for path in generated if path.endswith(".c"))]))
    shared: dict[str, Any] = {"n": network, "layers": code.layers, "steps": code.steps, "sources": network_sources}
    shared |= {"tilings": code.tilings, "cluster": cluster is not None, "affine": False}
    table = step_table(code.steps, len(program.ops), weights=bool(network.weights_bytes)) if as_table else None
    shared |= {"table": table, "no_wait": NO_WAIT}
    pictures = pictures_of(program, network, preprocess, channels_last=False)
    shared |= {"pictures": pictures, "n": with_preprocessing(network, program, pictures)}
    # What makes inputs of pixels is not among the network's own sources, which must fit L2.
    files |= {path: text.encode() for path, text in pictures.files.items()}
    shared |= {"optimisation": OPTIMISATION, "rv32_flags": RV32_FLAGS, "pulp_flags": PULP_NETWORK_FLAGS}
    environment = c_environment("nnkit_gap8", "templates")
    for path in (f"{network.stem}.h", f"{network.stem}.c", "README.md"):
        template = "README.md.j2" if path == "README.md" else f"network{path[-2:]}.j2"
        files[path] = tidy_source(environment, template, shared).encode()
    files |= shared_files(environment, shared)
    description = _description(
        program, plan, network, network_sources, in_tiles=cluster is not None, as_table=as_table
    )
    files["network.json"] = (json.dumps(pictures.recorded(description), indent=1) + "\n").encode()
    return dict(sorted(files.items()))


def pictures_of(
    program: Program, network: Network, preprocess: Mapping[str, Preprocess], *, channels_last: bool
) -> Pictures:
    """The inputs that are made of pictures."""
    pointers = {name: port.identifier for name, port in zip(program.inputs, network.inputs, strict=True)}
    return Pictures.of(network.stem, program, pointers, preprocess, channels_last=channels_last)


def with_preprocessing(network: Network, program: Program, pictures: Pictures) -> Network:
    """The network with what is done to have each of its inputs."""
    named = zip(program.inputs, network.inputs, strict=True)
    texts = (replace(port, preprocessing=comment_text(pictures.text(name))) for name, port in named)
    return replace(network, inputs=tuple(texts))


def _check(program: Program, plan: MemoryPlan, machine: CoreMachine, operator_of: OperatorOf) -> None:
    for tensor in program.tensors.values():
        if not isinstance(tensor.format, Fixed):
            raise InternalError("a float tensor has no integer kernel", where=tensor.name)
        if tensor.name not in plan.places:
            raise InternalError("the plan has no place for this tensor", where=tensor.name)
    for op in program.ops:
        for _, needed_bytes in operator_of(op).needs(op, program, machine).scratch_bytes:
            scratch = scratch_buffer(plan, op.name)
            if scratch is None or scratch.size_bytes < needed_bytes:
                raise InternalError(f"the plan lacks {needed_bytes} bytes of L1 scratch", where=op.name)


def network_of(program: Program, plan: MemoryPlan, machine: CoreMachine, name: str) -> Network:
    stem = identifier(name, RESERVED)
    by_kind: dict[str, list[tuple[int, int]]] = {}
    for buffer in plan.buffers.values():
        by_kind.setdefault(f"{buffer.region}:{buffer.kind}", []).append((buffer.offset_bytes, buffer.size_bytes))
    pool = max(
        (o + s for kind in ("activation", "weights", "scratch") for o, s in by_kind.get(f"l2:{kind}", [])), default=0
    )
    context = by_kind.get("l2:context", [(-(-pool // 4) * 4, CONTEXT_BYTES)])[0]
    stack = by_kind.get("l2:stack", [(context[0] + context[1], STACK_BYTES)])[0]
    code_bytes = sum(size for _, size in by_kind.get("l2:code", []))
    identifiers = unique_identifiers((*program.inputs, *program.outputs), RESERVED)
    regions = plan.regions
    return Network(
        title=comment_text(name),
        version=nnkit.__version__,
        stem=stem,
        prefix=f"{stem}_",
        macro=stem.upper(),
        inputs=tuple(_port("input", t, program, plan, stem, identifiers) for t in program.inputs),
        outputs=tuple(_port("output", t, program, plan, stem, identifiers) for t in program.outputs),
        l2_pool_bytes=pool,
        l2_peak_bytes=max(pool, context[0] + context[1], stack[0] + stack[1]),
        l2_capacity_bytes=regions["l2"].capacity_bytes - code_bytes,
        l1_bytes=regions["l1"].peak_bytes if "l1" in regions else 0,
        l1_capacity_bytes=regions["l1"].capacity_bytes if "l1" in regions else machine.scratch_bytes,
        l3_capacity_bytes=regions["l3"].capacity_bytes if "l3" in regions else 8 << 20,
        weights_bytes=plan.l3_weight_bytes,
        code_bytes=code_bytes,
        context_offset=context[0],
        stack_offset=stack[0],
        stack_bytes=stack[1],
        cores=machine.cores,
    )


def _port(
    role: str, tensor: str, program: Program, plan: MemoryPlan, stem: str, identifiers: Mapping[str, str]
) -> Port:
    value = program.tensors[tensor]
    name = identifiers[tensor]
    shape = "x".join(str(side) for side in value.shape) or "1"
    return Port(
        role,
        comment_text(tensor),
        name,
        f"{stem}_{name}".upper(),
        ctype(value.fixed).c,
        f"{shape} {value.fixed}",
        value.elements,
        value.fixed.frac,
        address(plan, tensor),
        value.size_bytes,
    )


def _weights(program: Program, plan: MemoryPlan, operator_of: OperatorOf) -> bytes:
    """weights.bin: every op's blocks where the plan's chunks expect them."""
    image, written = bytearray(plan.l3_weight_bytes), bytearray(plan.l3_weight_bytes)
    blocks = {op.name: operator_of(op).weight_blocks(op) for op in program.ops}
    for chunk in plan.chunks:
        data = b"".join(blocks[chunk.op][chunk.first_block : chunk.first_block + chunk.blocks])
        if len(data) != chunk.size_bytes or chunk.l3_offset_bytes + len(data) > len(image):
            raise InternalError(
                f"{len(data)} bytes of weights packed, {chunk.size_bytes} planned at {chunk.l3_offset_bytes}",
                where=chunk.op,
            )
        end = chunk.l3_offset_bytes + len(data)
        if any(written[chunk.l3_offset_bytes : end]) and image[chunk.l3_offset_bytes : end] != data:
            raise InternalError("the plan stores other weights where these belong", where=chunk.op)
        image[chunk.l3_offset_bytes : end] = data
        written[chunk.l3_offset_bytes : end] = b"\1" * len(data)
    return bytes(image)


def _description(
    program: Program,
    plan: MemoryPlan,
    network: Network,
    sources: tuple[str, ...],
    *,
    in_tiles: bool,
    as_table: bool,
) -> dict[str, Any]:
    """network.json: what a program needs to know to build, feed and trace the network."""

    def tensor(name: str) -> dict[str, Any]:
        described = program.tensors[name]
        fixed = described.fixed
        return {
            "name": name,
            "shape": list(described.shape),
            "format": {"bits": fixed.bits, "frac": fixed.frac, "signed": fixed.signed},
            "bytes": described.size_bytes,
            "l2_offset": address(plan, name),
        }

    description: dict[str, Any] = {
        "nnkit": network.version,
        "name": network.title,
        "stem": network.stem,
        "sources": list(sources),
        "cores": network.cores,
        "inputs": [tensor(name) for name in program.inputs],
        "outputs": [tensor(name) for name in program.outputs],
        "ops": [
            {
                "name": op.name,
                "kind": op.kind,
                "output": tensor(op.output),
                "shape_chw": list(chw(program.tensors[op.output])),
            }
            for op in program.ops
        ],
        "memory": {
            "l1_bytes": network.l1_bytes,
            "l1_capacity_bytes": network.l1_capacity_bytes,
            "l2_pool_bytes": network.l2_pool_bytes,
            "l2_peak_bytes": network.l2_peak_bytes,
            "l2_capacity_bytes": network.l2_capacity_bytes,
            "context_offset": network.context_offset,
            "stack_offset": network.stack_offset,
            "stack_bytes": network.stack_bytes,
            "weights_bytes": network.weights_bytes,
            "l3_capacity_bytes": network.l3_capacity_bytes,
        },
    }
    if in_tiles:
        description["cluster"] = True
    if as_table:
        description["steps"] = "table"
    if network.code_bytes:
        description["memory"]["code_bytes"] = network.code_bytes
    return description
