"""Runners of a deployment: the whole pipeline compiled and run on this host, as rv32imc under QEMU, and on GVSoC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnkit.boards.objects import compile_object
from nnkit.boards.tools import QEMU_RV32, RV32_COMPILER, RV32_SIZE, missing_tools, require, run_in
from nnkit.c.host_compiler import needed_compiler, why_no_compiler
from nnkit.deployed import Deployed
from nnkit.errors import InternalError
from nnkit.owned_folder import temporary_folder
from nnkit.reading import read_json_object
from nnkit.target import PipelineRun
from nnkit_gap8.call_stack import worst_stack_bytes
from nnkit_gap8.compile_flags import OPTIMISATION, PULP_FLAGS, RV32_FLAGS
from nnkit_gap8.gvsoc_runner import (
    PULP_SOURCES,
    compile_for_pulp,
    left_by_gvsoc,
    missing_for_gvsoc,
    run_on_gvsoc,
)
from nnkit_gap8.runners import qemu_command

_COMPILE_TIMEOUT_S = 300.0
_RUN_TIMEOUT_S = 1200.0
_ARGUMENTS = ("weights.bin", "commands.bin", "results.bin", "trace.bin", "store.bin")


@dataclass(frozen=True)
class HostPipelineRunner:
    """Compiles with the host's C compiler. flags: for it too. parts: None takes the artifact's cores."""

    flags: tuple[str, ...] = ("-O1",)
    parts: int | None = None
    name: str = "host"
    emulated: bool = False
    counts: str = ""

    def missing(self) -> str | None:
        """None when a C compiler is there, otherwise what to install."""
        return why_no_compiler()

    def run(self, artifact: Path, deployed: Deployed, commands: bytes) -> PipelineRun:
        """As `PipelineRunner.run`."""
        artifact = artifact.resolve()
        description = describe_deployment(artifact)
        compiler = needed_compiler()
        with temporary_folder("nnkit-host-") as folder:
            binary = folder / "pipeline"
            command = [compiler, *self.flags, "-DNNKIT_STAGES"]
            command += ["-DNNKIT_PORT_PARALLEL"] if description["cluster"] else []
            command += [f"-I{artifact / place}" for place in ("host", "session", ".")]
            sources = [*description["sources"], "host/nnkit_port_host.c", "host/main.c"]
            sources += ["host/nnkit_store_host.c"] if description["stages"] else []
            command += ["-o", str(binary), *(str(artifact / source) for source in sources)]
            run_in(folder, command, _COMPILE_TIMEOUT_S)
            _prepare(folder, artifact, commands)
            parts = self.parts or int(description["cores"])
            run_in(folder, [str(binary), *_ARGUMENTS, str(parts)], _RUN_TIMEOUT_S)
            return _left(folder)


@dataclass(frozen=True)
class Rv32PipelineRunner:
    """Compiles for rv32imc and runs under QEMU, with the target's memory sizes; instructions are exact.

    `measured` has l2_painted_bytes, stack_used_bytes, stack_worst_bytes and code_bytes, as of a network's own run.
    """

    parts: int = 1
    name: str = "rv32"
    emulated: bool = True
    counts: str = "instructions"

    def missing(self) -> str | None:
        """None when cross compiler and emulator are there, otherwise what to install."""
        return missing_tools((RV32_COMPILER, RV32_SIZE, QEMU_RV32))

    def run(self, artifact: Path, deployed: Deployed, commands: bytes) -> PipelineRun:
        """As `PipelineRunner.run`. Raises ToolError also where it does not fit or touches guarded memory."""
        artifact = artifact.resolve()
        description = describe_deployment(artifact)
        with temporary_folder("nnkit-rv32-") as folder:
            build = _Rv32Build(artifact, folder, description, self.parts)
            worst = build.stack_bytes(deployed)
            build.link()
            _prepare(folder, artifact, commands)
            run_in(folder, [*qemu_command(), "-kernel", str(folder / "pipeline.elf")], _RUN_TIMEOUT_S)
            run = _left(folder)
            values, stages = _measures((folder / "measures.txt").read_text(), description["stages"])
        measured = {"l2_painted_bytes": values["l2"], "stack_used_bytes": values["stack"]}
        measured |= {"stack_worst_bytes": worst, "code_bytes": build.code_bytes}
        return PipelineRun(run.results, run.trace, run.store, measured, stages)


def compiled_code_bytes(artifact: Path) -> int:
    """Instructions and constants of the networks and the stages, compiled for rv32imc. Raises ToolError."""
    with temporary_folder("nnkit-code-") as folder:
        return _Rv32Build(artifact.resolve(), folder, describe_deployment(artifact), 1).code_bytes


class _Rv32Build:
    """The objects of one artifact; every source is compiled once."""

    def __init__(self, artifact: Path, folder: Path, description: Mapping[str, Any], parts: int) -> None:
        self.artifact, self.folder, self.description, self.parts = artifact, folder, description, parts
        networks = [source for source in description["sources"] if source != "session/session.c"]
        port = ["rv32/nnkit_port_rv32.c", "rv32/rv32_runtime.c", "rv32/nnkit_semihosting.c"]
        port += ["rv32/nnkit_dma_rv32.c"] if description["cluster"] else []
        # Without the hooks of the session: they are the harness's, and would count for code and stack.
        self.own = [self._compile(source, hooks=False) for source in networks]
        self.port = [self._compile(source, hooks=False) for source in port]
        main = f"{description['stem']}.c"
        self.linked = [path for path, source in zip(self.own, networks, strict=True) if source != main]
        harness = [main, "session/session.c", "rv32/main.c", "rv32/crt0.S"]
        harness += ["rv32/nnkit_store_rv32.c"] if description["stages"] else []
        self.harness = [self._compile(source, hooks=True) for source in harness]
        sizes = run_in(folder, [require(RV32_SIZE), "-B", *map(str, self.own)], _COMPILE_TIMEOUT_S)
        self.code_bytes = sum(int(line.split()[0]) for line in sizes.splitlines()[1:])

    def _compile(self, source: str, *, hooks: bool) -> Path:
        place = self.folder / f"{source.replace('/', '_')}{'.hooks' if hooks else ''}.o"
        flags = [*RV32_FLAGS, *OPTIMISATION, f"-DNNKIT_PARTS={self.parts}", "-fcallgraph-info=su"]
        flags += ["-DNNKIT_STAGES"] if hooks else []
        includes = [self.artifact / folder for folder in ("rv32", "session", ".")]
        compile_object([require(RV32_COMPILER), *flags], includes, self.artifact / source, place)
        return place

    def stack_bytes(self, deployed: Deployed) -> int:
        """The worst of all entries; it must fit what the plan reserves."""
        graphs = [path.with_suffix(".ci").read_text() for path in (*self.own, *self.port)]
        stem = self.description["stem"]
        roots = [f"{stem}_run_{part.name}" for part in deployed.parts]
        roots += [f"{stem}_search", f"{stem}_enrol"] if deployed.stages is not None else []
        worst = max(worst_stack_bytes(graphs, root) for root in roots)
        reserved = int(self.description["memory"]["stack_bytes"])
        if worst > reserved:
            raise InternalError(f"the pipeline needs {worst} bytes of stack, {reserved} are reserved", where="rv32")
        return worst

    def link(self) -> None:
        """Make pipeline.elf; the linker refuses what does not fit."""
        script = self.artifact / "rv32" / "link.ld"
        command = [require(RV32_COMPILER), *RV32_FLAGS, "-nostdlib", "-nostartfiles", "-T", str(script)]
        objects = [*self.linked, *self.port, *self.harness]
        command += ["-o", str(self.folder / "pipeline.elf"), *map(str, objects), "-lgcc"]
        run_in(self.folder, command, _COMPILE_TIMEOUT_S)


@dataclass(frozen=True)
class GvsocPipelineRunner:
    """Compiles networks in tiles for a simulated cluster of the chip's family and runs them; see `gvsoc_runner`."""

    parts: int | None = None
    timeout_s: float = _RUN_TIMEOUT_S
    name: str = "gvsoc"
    emulated: bool = True
    counts: str = "cycles"

    def missing(self) -> str | None:
        """None when cross compiler and simulator are there, otherwise what is not."""
        return missing_for_gvsoc()

    def run(self, artifact: Path, deployed: Deployed, commands: bytes) -> PipelineRun:
        """As `PipelineRunner.run`. Raises ToolError also where it does not fit L2 with its code."""
        artifact = artifact.resolve()
        description = describe_deployment(artifact)
        with temporary_folder("nnkit-gvsoc-") as folder:
            elf = folder / "pipeline.elf"
            sources = list(description["sources"])
            sources += ["rv32/nnkit_store_rv32.c"] if description["stages"] else []
            flags = [*PULP_FLAGS, f"-DNNKIT_PARTS={self.parts or int(description['cores'])}", "-DNNKIT_STAGES"]
            includes = [artifact / place for place in ("pulp", "session", ".", "rv32")]
            peak_bytes = int(description["memory"]["l2_peak_bytes"])
            compile_for_pulp(artifact, elf, [*sources, *PULP_SOURCES], flags, includes, peak_bytes)
            _prepare(folder, artifact, commands)
            run_on_gvsoc(folder, elf, self.timeout_s)
            run = _left(folder)
            stages: dict[str, tuple[int, int]] = {}
            if description["stages"]:
                _, stages = _measures(left_by_gvsoc(folder, "measures.txt").decode(), description["stages"])
        return PipelineRun(run.results, run.trace, run.store, {}, stages)


def describe_deployment(artifact: Path) -> Mapping[str, Any]:
    """The artifact's deployment.json."""
    return read_json_object(artifact / "deployment.json", what="the artifact's description", remedy="build it again")


def _prepare(folder: Path, artifact: Path, commands: bytes) -> None:
    (folder / "weights.bin").symlink_to(artifact / "weights.bin")
    (folder / "commands.bin").write_bytes(commands)


def _left(folder: Path) -> PipelineRun:
    store = folder / "store.bin"
    stored = store.read_bytes() if store.exists() else b""
    return PipelineRun((folder / "results.bin").read_bytes(), (folder / "trace.bin").read_bytes(), stored)


def _measures(text: str, names: list[str]) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """measures.txt: numbers by name; of each stage how often it ran, and instructions in all."""
    values: dict[str, int] = {}
    stages: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        name, first, second, third = line.split()
        if name == "stage":
            stages[names[int(first)]] = (int(second), int(third))
        else:
            values[name] = int(first)
    return values, stages
