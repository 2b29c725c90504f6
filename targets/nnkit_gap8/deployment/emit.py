"""Several networks in one C project: each network's sources, one memory, the stages between them, the ports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import nnkit
from nnkit.c.postprocess.emit import postprocess_files
from nnkit.c.sources import c_environment
from nnkit.c.text import comment_text, identifier
from nnkit.deployed import Deployed, FaceMatchStages, NetworkPart
from nnkit.generated import packaged_text
from nnkit_gap8.cluster.build import Cluster
from nnkit_gap8.code_size import StepsForm
from nnkit_gap8.compile_flags import OPTIMISATION, PULP_FLAGS, RV32_FLAGS
from nnkit_gap8.deployment.code_size import steps_forms
from nnkit_gap8.emit import Network, Port, emit_artifact, network_of
from nnkit_gap8.options import Gap8Options

_OWN_FOLDERS = ("host/", "rv32/", "pmsis/", "pulp/")
_OWN_FILES = ("README.md", "network.json", "weights.bin")
_STAGE_FILES = ("nnkit_people.c", "nnkit_people.h", "nnkit_shrink.c", "nnkit_shrink.h", "nnkit_store.h")
_KEPT_FOR_PORTS = {
    "host": ("nnkit_port_host",),
    "rv32": ("nnkit_port_rv32", "nnkit_dma_rv32", "rv32_runtime", "nnkit_semihosting", "crt0"),
}
_PULP_FILES = ("nnkit_port_pulp", "crt0", "pulp.h", "string.h")  # of networks in tiles, which alone run there
_KEPT_FOR_PORTS |= {"pulp": _PULP_FILES, "rv32_headers": ("string.h",), "pmsis": ("nnkit_port_pmsis",)}


@dataclass(frozen=True)
class _Joint:
    """What the templates of a deployment read. Sizes in bytes; offsets: of what survives, by name."""

    title: str
    version: str
    stem: str
    prefix: str
    macro: str
    networks: tuple[Any, ...]
    l2_bytes: int
    l1_bytes: int
    weights_bytes: int
    stack_bytes: int
    cores: int
    offsets: Mapping[str, int]
    detector: Any = None
    descriptor: Any = None
    image: Port | None = None
    boxes: Port | None = None
    scores: Port | None = None
    face: Port | None = None
    description: Port | None = None


@dataclass(frozen=True)
class _Named:
    """A network under its name in the deployment."""

    name: str
    stem: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def deployment_files(deployed: Deployed, options: Gap8Options) -> dict[str, bytes]:
    """The artifact's files by relative path; the same deployment gives the same bytes."""
    files: dict[str, bytes] = {}
    sources: list[str] = []
    forms = steps_forms(deployed, options)
    image = bytearray(deployed.joint.plan.l3_weight_bytes)
    ports: dict[str, bytes] = {}
    networks: dict[str, Network] = {}
    described: list[dict[str, Any]] = []
    for part, form in zip(deployed.parts, forms, strict=True):
        own = _network_files(deployed, part, form)
        description = json.loads(own["network.json"])
        described.append({"name": part.name} | {key: description[key] for key in ("inputs", "outputs")})
        sources += description["sources"]
        start = deployed.joint.l3_offset_bytes(part.name)
        weights = own["weights.bin"][start:]
        image[start : start + len(weights)] = weights
        files |= {
            path: data for path, data in own.items() if path not in _OWN_FILES and not path.startswith(_OWN_FOLDERS)
        }
        ports |= {path: data for path, data in own.items() if _is_port(path)}
        networks[part.name] = network_of(
            part.program, deployed.plan_of(part.name), part.options.core_machine(), part.name
        )
    joint = _joint(deployed, networks)
    files["weights.bin"] = bytes(image)
    if deployed.stages is not None:
        files |= _stage_files(deployed.stages)
        sources += sorted(path for path in files if path.startswith("nnkit_") and path.endswith(".c"))
    sources = sorted({*sources, f"{joint.stem}.c", "session/session.c"})
    files |= ports | _rendered(deployed, joint, sources, options, networks)
    files["deployment.json"] = _description(deployed, joint, sources, described, in_tiles=options.cluster is not None)
    return dict(sorted(files.items()))


def _network_files(deployed: Deployed, part: NetworkPart, form: StepsForm) -> dict[str, bytes]:
    machine = part.options.core_machine()
    cluster = None if part.options.cluster is None else Cluster(part.program, machine)
    return emit_artifact(
        part.program,
        deployed.plan_of(part.name),
        machine,
        part.name,
        cluster,
        as_table=form == "table",
        preprocess=part.preprocess,
    )


def _is_port(path: str) -> bool:
    """Whether a file of a port is the same for every network, or for every deployment."""
    folder, _, name = path.partition("/")
    kept = [*_KEPT_FOR_PORTS.get(folder, ()), *_KEPT_FOR_PORTS.get(f"{folder}_headers", ())]
    return bool(name) and name.startswith(tuple(kept))


def _joint(deployed: Deployed, networks: Mapping[str, Network]) -> _Joint:
    plan, stages = deployed.joint.plan, deployed.stages
    stem = identifier(deployed.name)
    named = {name: _Named(comment_text(name), net.stem, net.inputs, net.outputs) for name, net in networks.items()}
    values: dict[str, Any] = {}
    if stages is not None:
        detector, descriptor = networks[stages.detector], networks[stages.descriptor]
        values = {
            "detector": named[stages.detector],
            "descriptor": named[stages.descriptor],
            "image": _port(detector.inputs, stages.image),
            "boxes": _port(detector.outputs, stages.boxes),
            "scores": _port(detector.outputs, stages.scores),
            "face": _port(descriptor.inputs, stages.face),
            "description": _port(descriptor.outputs, stages.description),
        }
    return _Joint(
        title=comment_text(deployed.name),
        version=nnkit.__version__,
        stem=stem,
        prefix=f"{stem}_",
        macro=stem.upper(),
        networks=tuple(named.values()),
        l2_bytes=deployed.joint.survivor_offset_bytes("context"),
        l1_bytes=plan.regions["l1"].peak_bytes,
        weights_bytes=plan.l3_weight_bytes,
        stack_bytes=plan.buffers["stack"].size_bytes,
        cores=max(network.cores for network in networks.values()),
        offsets={buffer.name: buffer.offset_bytes for buffer in plan.buffers.values() if "/" not in buffer.name},
        **values,
    )


def _port(ports: tuple[Port, ...], tensor: str) -> Port:
    return next(port for port in ports if port.tensor == comment_text(tensor))


def _stage_files(stages: FaceMatchStages) -> dict[str, bytes]:
    files = postprocess_files([stages.crop, stages.match, stages.detect])
    files |= {name: packaged_text("nnkit", "c", "postprocess", name) for name in _STAGE_FILES}
    return {name: text.encode() for name, text in files.items()}


def _rendered(
    deployed: Deployed, joint: _Joint, sources: list[str], options: Gap8Options, networks: Mapping[str, Network]
) -> dict[str, bytes]:
    """The templates of `c/deployment`, and those of ports that know sizes alone."""
    environment = c_environment("nnkit_gap8", "templates")
    plan, regions = deployed.joint.plan, options.regions()
    memory = {
        "title": joint.title,
        "stem": joint.stem,
        "weights_bytes": joint.weights_bytes,
        "l1_bytes": joint.l1_bytes,
        "l2_peak_bytes": plan.regions["l2"].peak_bytes,
        "context_offset": plan.buffers["context"].offset_bytes,
        "stack_offset": plan.buffers["stack"].offset_bytes,
        "stack_bytes": joint.stack_bytes,
    } | {f"{region.name}_capacity_bytes": region.capacity_bytes for region in regions}
    values: dict[str, Any] = {"d": joint, "s": deployed.stages, "n": memory, "cluster": options.cluster is not None}
    values |= {"optimisation": OPTIMISATION, "rv32_flags": RV32_FLAGS, "pulp_flags": PULP_FLAGS}
    memory["l2_pool_bytes"] = memory["l2_peak_bytes"]  # with context and stack
    files = {}
    for path, text in _templates(in_tiles=options.cluster is not None):
        folder, name = path.split("/") if "/" in path else ("", path)
        if deployed.stages is None and ("store" in name or name == "nnkit_pipeline_config.h.j2"):
            continue
        own = list(sources)
        if deployed.stages is not None and folder in ("host", "rv32", "pmsis"):
            own.append(f"{folder}/nnkit_store_{folder}.c")
        if deployed.stages is not None and folder == "pulp":
            own.append("rv32/nnkit_store_rv32.c")
        if folder == "pmsis":
            own.remove("session/session.c")
        target = {"pipeline.h.j2": f"{joint.stem}.h", "pipeline.c.j2": f"{joint.stem}.c"}.get(path, path[:-3])
        rendered = environment.from_string(text).render(values | {"sources": own})
        files[target] = rendered.encode()
    return files


def _templates(*, in_tiles: bool) -> Iterator[tuple[str, str]]:
    root = resources.files("nnkit_gap8") / "c"
    for entry in sorted((root / "deployment").iterdir(), key=lambda item: item.name):
        if entry.name == "pulp" and not in_tiles:
            continue
        if entry.is_file():
            yield entry.name, entry.read_text(encoding="utf-8")
            continue
        for inner in sorted(entry.iterdir(), key=lambda item: item.name):
            yield f"{entry.name}/{inner.name}", inner.read_text(encoding="utf-8")
    for path in ("rv32/link.ld.j2", "pmsis/Makefile.j2"):
        yield path, (root / path).read_text(encoding="utf-8")
    if in_tiles:
        yield "pulp/link.ld.j2", (root / "cluster" / "pulp" / "link.ld.j2").read_text(encoding="utf-8")


def _description(
    deployed: Deployed, joint: _Joint, sources: list[str], networks: list[dict[str, Any]], *, in_tiles: bool
) -> bytes:
    """deployment.json."""
    stages = deployed.stages
    description: dict[str, Any] = {
        "nnkit": joint.version,
        "name": joint.title,
        "stem": joint.stem,
        "sources": sources,
        "cores": joint.cores,
        "networks": networks,
        "memory": {
            "l1_bytes": joint.l1_bytes,
            "l2_bytes": joint.l2_bytes,
            "l2_peak_bytes": deployed.joint.plan.regions["l2"].peak_bytes,
            "weights_bytes": joint.weights_bytes,
            "stack_bytes": joint.stack_bytes,
            "offsets": dict(joint.offsets),
        },
        "stages": list(stages.NAMES) if stages is not None else [],
        "cluster": in_tiles,
    }
    return (json.dumps(description, indent=1) + "\n").encode()
