"""GVSoC as a runner: the build for the cluster, bare metal, on a simulated cluster of the chip's family."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnkit.boards.objects import compile_object
from nnkit.boards.tools import RV32_COMPILER, missing_tools, require, run_in
from nnkit.children.search import found_program
from nnkit.errors import DoesNotFitError, ToolError
from nnkit.external_tool import Tool, run_tool
from nnkit.owned_folder import temporary_folder
from nnkit.program import Program
from nnkit.target import Contract, RunResult
from nnkit_gap8.compile_flags import OPTIMISATION, PULP_NETWORK_FLAGS
from nnkit_gap8.runners import describe, input_bytes, split_outputs

COMMAND_VARIABLE = "NNKIT_GVSOC"
"""Names a command that takes an ELF; without it `gvsoc` on PATH is called for its target `pulp-open`."""

_ARGUMENTS = ("--target=pulp-open", "image", "flash", "run", "--binary")
PULP_SOURCES = ("rv32/nnkit_semihosting.c", "pulp/nnkit_port_pulp.c", "pulp/main.c", "pulp/crt0.S")
_OVERFLOW = re.compile(r"region `L2' overflowed by (\d+) bytes")
_COMPILE_TIMEOUT_S = 300.0
_RUN_TIMEOUT_S = 600.0
_INSTALL = f"build gvsoc (github.com/gvsoc/gvsoc, target pulp-open) and put it on PATH, or set {COMMAND_VARIABLE}"
_STATUSES = {2: "weights.bin cannot be read", 3: "weights.bin is too short", 4: "a file cannot be opened"}
_STATUSES |= {5: "the network or a command failed", 6: "its results cannot be written", 99: "a core trapped"}


def gvsoc_command() -> list[str] | None:
    """The command that takes an ELF; None: there is none."""
    named = os.environ.get(COMMAND_VARIABLE, "")
    if named.strip():
        return shlex.split(named)
    path = found_program("gvsoc")
    return None if path is None else [path, *_ARGUMENTS]


def gvsoc_tool() -> Tool:
    """For `nnkit doctor`."""
    command = gvsoc_command()
    program = None if command is None else found_program(command[0])
    version = f"called as {shlex.join(command)}" if program and command else ""
    return Tool("gvsoc", "simulates the cluster, in cycles", program, version, _INSTALL)


@dataclass(frozen=True)
class GvsocRunner:
    """Compiles for RI5CY with the vector extension's encodings and runs on the simulator's cluster.

    `measured` holds `cycles` of the whole call, weights from L3 included, and `cycles:LAYER` of every layer.
    """

    parts: int | None = None
    timeout_s: float = _RUN_TIMEOUT_S
    name: str = "gvsoc"
    emulated: bool = True
    contract: Contract = "exact"

    def missing(self) -> str | None:
        """None when cross compiler and simulator are there, otherwise what is not."""
        return missing_for_gvsoc()

    def bound(self, program: Program, tensor: str) -> float:
        """Nothing may differ."""
        return 0.0

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """One result per set of inputs, without inner tensors; cycles by layer are those of the first.

        Raises ToolError when a tool fails or does not end, or the program ends with an error.
        """
        if not inputs:
            return []
        artifact = artifact.resolve()
        with temporary_folder("nnkit-gvsoc-") as folder:
            elf = link_for_cluster(artifact, folder, self.parts)
            (folder / "weights.bin").symlink_to(artifact / "weights.bin")
            (folder / "inputs.bin").write_bytes(input_bytes(program, inputs))
            run_on_gvsoc(folder, elf, self.timeout_s)
            outputs = split_outputs(program, left_by_gvsoc(folder, "outputs.bin"), len(inputs))
            cycles, layers = _read_cycles(left_by_gvsoc(folder, "measures.txt").decode(errors="replace"), program)
        if len(cycles) != len(inputs):
            raise ToolError(f"{len(cycles)} runs of {len(inputs)} have left their cycles", where="measures.txt")
        return [
            RunResult(out, measured={"cycles": count, **(layers if index == 0 else {})})
            for index, (out, count) in enumerate(zip(outputs, cycles, strict=True))
        ]


def link_for_cluster(artifact: Path, folder: Path, parts: int | None = None) -> Path:
    """Compile a network's artifact for the cluster in `folder`; returns the executable. parts: None takes its cores.

    Raises as `compile_for_pulp`.
    """
    description = describe(artifact)
    elf = folder / "network.elf"
    flags = [
        *PULP_NETWORK_FLAGS,
        *description.get("flags", []),
        f"-DNNKIT_PARTS={parts or int(description['cores'])}",
    ]
    includes = (artifact / "pulp", artifact, artifact / "rv32")
    sources = [*description["sources"], *PULP_SOURCES]
    compile_for_pulp(artifact, elf, sources, flags, includes, int(description["memory"]["l2_peak_bytes"]))
    return elf


def missing_for_gvsoc() -> str | None:
    """None when cross compiler and simulator are there, otherwise what is not."""
    command = gvsoc_command()
    if command is None:
        return f"gvsoc is not on PATH ({_INSTALL})"
    if found_program(command[0]) is None:
        return f"{COMMAND_VARIABLE} names {command[0]}, which cannot be run ({_INSTALL})"
    return missing_tools((RV32_COMPILER,))


def compile_for_pulp(
    artifact: Path,
    elf: Path,
    sources: Sequence[str],
    flags: Sequence[str],
    includes: Sequence[Path],
    l2_peak_bytes: int,
) -> None:
    """Compile and link C of an artifact with its `pulp/link.ld`.

    Args:
        l2_peak_bytes: of the memory plan.

    Raises ToolError, and DoesNotFitError where code and data together are more than the chip's L2.
    """
    compiler = [require(RV32_COMPILER), *flags, *OPTIMISATION]
    objects = [elf.parent / f"pulp_{number}.o" for number in range(len(sources))]
    for source, place in zip(sources, objects, strict=True):
        compile_object(compiler, includes, artifact / source, place)
    link = [*compiler, "-nostdlib", "-nostartfiles", "-T", str(artifact / "pulp" / "link.ld"), "-o", str(elf)]
    try:
        run_in(elf.parent, [*link, *map(str, objects), "-lgcc"], _COMPILE_TIMEOUT_S)
    except ToolError as error:
        overflow = _OVERFLOW.search(error.reason)
        if overflow is None:
            raise
        excess = int(overflow[1])
        raise DoesNotFitError(
            f"code, stacks and the plan's {l2_peak_bytes:,} bytes are {excess:,} bytes more than the chip's L2",
            where="gvsoc",
            remedy=f"plan with less, so that code has room: `memory: {{l2: {(l2_peak_bytes - excess) // 1024}KiB}}`",
        ) from error


def run_on_gvsoc(folder: Path, elf: Path, timeout_s: float) -> None:
    """Simulate a program, whose files are in `folder`. Raises ToolError where it fails or does not end."""
    command = gvsoc_command()
    if command is None:
        raise ToolError("gvsoc is not on PATH", where="gvsoc", remedy=_INSTALL)
    run = run_tool([*command, str(elf)], folder=folder, timeout_s=timeout_s, remedy=_INSTALL)
    if run.failed:
        reason = _STATUSES.get(run.code or 0, "")
        raise run.error("the simulation" + (f" ({reason})" if reason else ""), remedy="look at what it printed")


def left_by_gvsoc(folder: Path, name: str) -> bytes:
    """A file that the program has written. Raises ToolError where it has not."""
    path = folder / name
    if not path.is_file():
        raise ToolError("the simulation has not written it", where=name, remedy="look at what the simulator prints")
    return path.read_bytes()


def _read_cycles(text: str, program: Program) -> tuple[list[int], dict[str, int]]:
    """Cycles of every run, and `cycles:LAYER` of the first."""
    cycles: list[int] = []
    layers: dict[str, int] = {}
    for line in text.splitlines():
        try:
            name, first, second = line.split()
            if name == "cycles":
                cycles.append(int(first))
            elif name == "op":
                layers[f"cycles:{program.ops[int(first)].name}"] = int(second)
        except (ValueError, IndexError) as error:
            raise ToolError(f"cannot be read: {line!r}", where="measures.txt") from error
    return cycles, layers
