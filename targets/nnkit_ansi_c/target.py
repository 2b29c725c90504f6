"""The ansi_c plugin: what the framework asks of the target, answered by the modules beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.rewrite import DEFAULT_RULES
from nnkit.target import API_VERSION, Target
from nnkit_ansi_c.lowered import AnsiCLowered
from nnkit_ansi_c.options import AnsiCOptions

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.memory.plan import MemoryPlan
    from nnkit.program import Program
    from nnkit.rewrite import RewriteLog
    from nnkit.target import Deployment, Machine, Quantization, Runner, Tool


class AnsiCTarget(Target[AnsiCOptions, AnsiCLowered]):
    """A C90 library; see `docs/ansi_c.md`."""

    api_version = API_VERSION
    name = "ansi_c"
    summary = "Strict C90 for any microcontroller or host: one library, all memory planned, no dependencies"
    options = AnsiCOptions
    default_rules = DEFAULT_RULES
    documentation = "docs/ansi_c.md"

    def program_classes(self) -> tuple[type, ...]:
        """The layers of its programs."""
        from nnkit_ansi_c.ops import PROGRAM_CLASSES

        return PROGRAM_CLASSES

    def machine(self, options: AnsiCOptions) -> Machine:
        """Whatever a C compiler is for; the arena is as large as the recipe allows."""
        from nnkit.memory.plan import Region
        from nnkit.memory.problem import UNBOUNDED_BYTES
        from nnkit.target import Machine
        from nnkit_ansi_c.plan import ARENA

        capacity = UNBOUNDED_BYTES if options.arena is None else options.arena
        return Machine("ANSI C", (Region(ARENA, capacity),), "Any processor with a C90 compiler and 32-bit integers.")

    def lower(self, model: Model, log: RewriteLog, options: AnsiCOptions) -> AnsiCLowered:
        """Every node, or one error that names all that there is no C for."""
        return AnsiCLowered.of(model)

    def quantize(self, lowered: AnsiCLowered, quantization: Quantization, options: AnsiCOptions) -> Program:
        """The float32 program; calibration says what comparisons are relative to."""
        from nnkit_ansi_c.quantize import float_program

        return float_program(lowered.graph, quantization.statistics, quantization.name)

    def plan(self, lowered: AnsiCLowered, program: Program, options: AnsiCOptions) -> MemoryPlan:
        """The arena of the C. Raises DoesNotFitError where it is larger than the recipe allows."""
        from nnkit_ansi_c.network import Network
        from nnkit_ansi_c.plan import plan_of

        return plan_of(program, Network.of(program), options.arena)

    def emit(self, deployment: Deployment[AnsiCLowered], options: AnsiCOptions, folder: Path) -> None:
        """The library and what builds it."""
        from nnkit_ansi_c.emit import emit_library
        from nnkit_ansi_c.network import Network

        emit_library(Network.of(deployment.program), options, folder)

    def details(self, deployment: Deployment[AnsiCLowered], options: AnsiCOptions, folder: Path) -> Mapping[str, Any]:
        """Bytes of working memory and weights, and of the C files."""
        from nnkit_ansi_c.runner import described

        record = described(folder)
        sources = sum(path.stat().st_size for path in folder.glob("*.[ch]"))
        return {key: record[key] for key in ("arena_bytes", "weight_bytes")} | {"source_bytes": sources}

    def runners(self, options: AnsiCOptions) -> tuple[Runner, ...]:
        """This machine's compiler."""
        from nnkit_ansi_c.runner import HostRunner

        return (HostRunner(),)

    def boards(self, options: AnsiCOptions) -> tuple[Runner, ...]:
        """Every board that nnkit emulates."""
        from nnkit.boards import BOARDS
        from nnkit_ansi_c.board_runner import BoardRunner

        return tuple(BoardRunner(board) for board in BOARDS.values())

    def tools(self) -> tuple[Tool, ...]:
        """This machine's compiler; for the boards, cross compilers and emulators."""
        from nnkit.boards import BOARDS
        from nnkit.boards.tools import described_tool, found_tool
        from nnkit.c.host_compiler import host_compiler

        boards = BOARDS.values()
        compilers = {board.compiler: f"compiles it for {board.name}" for board in boards}
        emulators = {board.emulator: "runs boards for `nnkit bench`, instructions counted" for board in boards}
        here = described_tool("C compiler", host_compiler(), "runs it on this machine", "apt-get install gcc")
        return here, *(found_tool(*each) for each in (compilers | emulators).items())

    def limits(self) -> tuple[str, ...]:
        """What there is C for."""
        from nnkit.c.float.calls import MAX_RANK
        from nnkit.c.float.catalogue import CUSTOM_OPS, ONNX_OPS

        return (
            f"operators of ONNX: {', '.join(sorted(ONNX_OPS))}",
            f"operators of ai.nnkit: {', '.join(sorted(CUSTOM_OPS))}",
            "values are float32 of fixed shapes; shapes, axes, pads and the bounds of Clip are constants",
            "windows slide over one or two dimensions; Resize is nearest or linear, over height and width",
            f"at most {MAX_RANK} dimensions that cannot be merged",
        )
