"""The ansi_c plugin: what the framework asks of the target, answered by the modules beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nnkit.affine_build import CORRECTIONS, DEFAULT_CORRECTIONS
from nnkit.errors import RecipeError
from nnkit.rewrite import DEFAULT_RULES, INTEGER_FORM
from nnkit.target import API_VERSION, Lowered, Target
from nnkit_ansi_c.options import AnsiCOptions

if TYPE_CHECKING:
    from nnkit.boards.serial_line import SerialPort
    from nnkit.graph import Model
    from nnkit.memory.plan import MemoryPlan
    from nnkit.program import Program
    from nnkit.quantize.used_ranges import UsedRanges
    from nnkit.rewrite import RewriteLog
    from nnkit.target import Deployment, Machine, PrecisionSearch, Quantization, Runner, Shown, Tool
    from nnkit_ansi_c.integer_network import IntegerNetwork
    from nnkit_ansi_c.network import Network

    T = TypeVar("T")

_FLOAT_FORM = ("unroll_recurrent", "finite_mask", "comparison_to_sign", "merge_matmul")
"""What has no C in float as it is, or numbers that are not finite."""


class AnsiCTarget(Target[AnsiCOptions, Lowered]):
    """A C90 library; see `docs/ansi_c.md`."""

    api_version = API_VERSION
    name = "ansi_c"
    summary = "Strict C90 for any microcontroller or host: one library, all memory planned, no dependencies"
    options = AnsiCOptions
    default_rules = DEFAULT_RULES
    corrections = CORRECTIONS
    documentation = "docs/ansi_c.md"
    writes_postprocess = True

    def corrections_with(self, options: AnsiCOptions) -> tuple[str, ...]:
        """All of them in integers, none in float."""
        return () if options.precision == "float32" else self.corrections

    def own_corrections(self, options: AnsiCOptions) -> tuple[str, ...]:
        """That of biases in integers."""
        return () if options.precision == "float32" else DEFAULT_CORRECTIONS

    def needs_ranges(self, options: AnsiCOptions) -> bool:
        """In integers; of floats, ranges say only what comparisons are relative to."""
        return options.precision != "float32"

    def program_classes(self) -> tuple[type, ...]:
        """The layers of its programs."""
        from nnkit_ansi_c.ops import PROGRAM_CLASSES

        return PROGRAM_CLASSES

    def chips(self) -> Mapping[str, Mapping[str, Any]]:
        """The cores that `nnkit bench --on` emulates: the C is the same for all of them."""
        from nnkit.boards import BOARDS

        return {name: {} for name in BOARDS}

    def machine(self, options: AnsiCOptions) -> Machine:
        """Whatever a C compiler is for; the arena is as large as the recipe allows."""
        from nnkit.memory.plan import Region
        from nnkit.memory.problem import UNBOUNDED_BYTES
        from nnkit.target import Machine
        from nnkit_ansi_c.plan import ARENA

        description = "Any processor with a C90 compiler and 32-bit integers."
        if options.regions:
            regions = tuple(Region(each.name, each.size) for each in options.regions)
            return Machine("any microcontroller", regions, description, unit="CPU")
        capacity = UNBOUNDED_BYTES if options.arena is None else options.arena
        return Machine("any microcontroller", (Region(ARENA, capacity),), description, unit="CPU")

    def legalisation(self, options: AnsiCOptions) -> tuple[str, ...]:
        """The normal form of the quantiser, where values are integers; in float what has no C of its own."""
        return _FLOAT_FORM if options.precision == "float32" else INTEGER_FORM

    def options_for_quantised(self) -> Mapping[str, str]:
        """Integers: float32 has no steps."""
        return {"precision": "int8"}

    def wider_options(self, options: AnsiCOptions) -> Mapping[str, AnsiCOptions]:
        """Float, which has C for more operators; or integers, for a network that is quantised already."""
        other = "int8" if options.precision == "float32" else "float32"
        return {f"precision: {other}": options.model_copy(update={"precision": other})}

    def lower(self, model: Model, log: RewriteLog, options: AnsiCOptions) -> Lowered:
        """Every layer, or one error that names all that there is no C for."""
        if options.precision == "float32":
            from nnkit.graph.quantised_already import refuse_quantised
            from nnkit.graph.view import GraphView
            from nnkit_ansi_c.lowered import AnsiCLowered
            from nnkit_ansi_c.stripes import Stripes

            why, keeps = "float32 has no steps", "set `precision: int8`, which keeps its integers"
            refuse_quantised(GraphView.of(model), "cannot be deployed", why, keeps)
            return AnsiCLowered.of(model, Stripes.of(options))
        from nnkit.quantize.affine.lowering import lower_affine

        if options.inputs == "arena":
            raise RecipeError(
                "`inputs: arena` is of float32, and the precision is another",
                remedy="leave `inputs` out, or set `precision: float32`",
            )
        return lower_affine(model, log, self.documentation)

    def quantize(self, lowered: Lowered, quantization: Quantization, options: AnsiCOptions) -> Program:
        """The integer program, or the float32 one, of which calibration says what comparisons are relative to."""
        if options.precision == "float32":
            from nnkit_ansi_c.lowered import AnsiCLowered
            from nnkit_ansi_c.quantize import float_program

            return float_program(_of(lowered, AnsiCLowered).graph, quantization.statistics, quantization.name)
        from nnkit.affine_build.quantize import to_program
        from nnkit.quantize.lowered import LoweredLayers
        from nnkit_ansi_c.integer_stripes import fitted
        from nnkit_ansi_c.stripes import Stripes

        program = to_program(_of(lowered, LoweredLayers), quantization, options.affine)
        return fitted(program, Stripes.of(options))

    def ranges_used(
        self, lowered: Lowered, quantization: Quantization, program: Program, options: AnsiCOptions
    ) -> UsedRanges:
        """For integers the ranges of calibration, fitted to each tensor's format."""
        if options.precision == "float32":
            return super().ranges_used(lowered, quantization, program, options)
        from nnkit.affine_build.quantize import ranges_taken
        from nnkit.program.affine import AffineProgram
        from nnkit.quantize.lowered import LoweredLayers
        from nnkit_ansi_c.integer_stripes import without_stripes

        layers = _of(lowered, LoweredLayers)
        return ranges_taken(layers, quantization, without_stripes(_of(program, AffineProgram)), options.affine)

    def diagnosis(
        self, reference: Model, lowered: Lowered, quantization: Quantization, options: AnsiCOptions
    ) -> PrecisionSearch | None:
        """For integers a search over sets of layers in 16 bits; nothing for float32."""
        if options.precision == "float32":
            return None
        from nnkit.affine_build.diagnosis import AffineDiagnosis
        from nnkit.quantize.lowered import LoweredLayers
        from nnkit.target import PrecisionSearch

        layers = _of(lowered, LoweredLayers)
        settings = {
            "target": self.name,
            "options": options.model_dump(mode="json"),
            "calibration": quantization.calibration.model_dump(mode="json"),
        }
        return PrecisionSearch(settings, lambda: AffineDiagnosis(reference, layers, quantization, options.affine))

    def gains_from_sixteen_bits(self, options: AnsiCOptions) -> bool:
        """Where layers have 8 bits."""
        return options.precision == "int8"

    def plan(self, lowered: Lowered, program: Program, options: AnsiCOptions) -> MemoryPlan:
        """The arena of the C. Raises DoesNotFitError where it is larger than the recipe allows."""
        chosen = options.stripes is None
        if options.precision == "float32":
            from nnkit_ansi_c.plan import plan_of

            return plan_of(program, _network(program, options), options.arena, stripes_chosen=chosen)
        from nnkit_ansi_c.integer_plan import integer_plan

        return integer_plan(_integer_network(program, options), options.arena, stripes_chosen=chosen)

    def estimates(self, lowered: Lowered, program: Program, options: AnsiCOptions) -> Mapping[str, Any]:
        """Cycles by layer and core."""
        from nnkit_ansi_c.cycles import estimates_of

        return estimates_of(program, options.clock_mhz)

    def emit(self, deployment: Deployment[Lowered], options: AnsiCOptions, folder: Path) -> None:
        """The library with the CPU stages, what builds it, and what tries it on a board."""
        from nnkit.c.postprocess.emit import emit_postprocess
        from nnkit.inputs import picture_inputs
        from nnkit.postprocess.from_recipe import stages_of
        from nnkit.preprocess.from_pixels import Pictures
        from nnkit_ansi_c.selftest import emit_selftest

        stages = stages_of(deployment.recipe, deployment.program)
        files = emit_postprocess(stages, folder / "postprocess") if stages else ()
        stage_files = [path.name for path in files if path.suffix == ".c"]
        given = picture_inputs(deployment.recipe, deployment.program)

        def pictures(network: Network | IntegerNetwork, *, channels_last: bool) -> Pictures:
            pointers = {port.name: port.pointer for port in network.inputs}
            return Pictures.of(network.prefix, deployment.program, pointers, given, channels_last=channels_last)

        if options.precision == "float32":
            from nnkit_ansi_c.emit import emit_library

            network = _network(deployment.program, options)
            emit_library(network, options, folder, stage_files, pictures(network, channels_last=False))
        else:
            from nnkit_ansi_c.integer_emit import emit_integer_library

            integers = _integer_network(deployment.program, options)
            emit_integer_library(integers, options, folder, stage_files, pictures(integers, channels_last=True))
        emit_selftest(deployment.program, deployment.statistics, folder)

    def details(self, deployment: Deployment[Lowered], options: AnsiCOptions, folder: Path) -> Mapping[str, Any]:
        """Bytes of flash and RAM, the smallest arena, bytes of the C files; cycles as they are estimated."""
        from nnkit_ansi_c.cycles import estimated
        from nnkit_ansi_c.footprint import footprint
        from nnkit_ansi_c.runner import described

        record = described(folder)
        sources = sum(path.stat().st_size for path in folder.glob("*.[ch]"))
        sizes = {key: record[key] for key in ("arena_bytes", "weight_bytes")} | {"source_bytes": sources}
        cycles = dict(estimated(deployment.program, options.clock_mhz))
        smallest = self._smallest_arena(deployment, options, sizes["arena_bytes"])
        return sizes | footprint(deployment.plan, smallest, cycles) | {"estimated_cycles": cycles}

    def _smallest_arena(self, deployment: Deployment[Lowered], options: AnsiCOptions, arena_bytes: int) -> int | None:
        """The least that stripes were found to need, where that is less than `arena_bytes` and there are none yet."""
        from nnkit_ansi_c.stripe_values import striped_layers

        if options.regions or options.stripes is not None or striped_layers(deployment.program.tensors):
            return None
        if options.precision == "float32":
            from nnkit_ansi_c.lowered import AnsiCLowered, striped_arena_bytes

            least = striped_arena_bytes(_of(deployment.lowered, AnsiCLowered), options.inputs == "arena")
        else:
            from nnkit.program.affine import AffineProgram
            from nnkit_ansi_c import integer_stripes

            least = integer_stripes.striped_arena_bytes(_of(deployment.program, AffineProgram))
        return least if least < arena_bytes else None

    def shown(self, details: Mapping[str, Any]) -> Shown:
        """Estimated cycles, by layer and core."""
        from nnkit_ansi_c.shown import shown

        return shown(details)

    def runners(self, options: AnsiCOptions) -> tuple[Runner, ...]:
        """This machine's compiler."""
        if options.precision == "float32":
            from nnkit_ansi_c.runner import HostRunner

            return (HostRunner(),)
        from nnkit_ansi_c.integer_runner import IntegerHostRunner

        return (IntegerHostRunner(),)

    def boards(self, options: AnsiCOptions) -> tuple[Runner, ...]:
        """Every board that nnkit emulates."""
        from nnkit.boards import BOARDS
        from nnkit_ansi_c.board_runner import BoardRunner

        if options.precision == "float32":
            return tuple(BoardRunner(board) for board in BOARDS.values())
        return tuple(BoardRunner(board, contract="exact") for board in BOARDS.values())

    def device(self, options: AnsiCOptions, port: SerialPort) -> Runner | None:
        """Whatever runs the artifact's validation firmware."""
        from nnkit_ansi_c.device import DeviceRunner

        return DeviceRunner(port, contract="bounded" if options.precision == "float32" else "exact")

    def tools(self) -> tuple[Tool, ...]:
        """This machine's compiler; for the boards, cross compilers and emulators."""
        from nnkit.boards import BOARDS
        from nnkit.boards.tools import found_tool
        from nnkit.c.host_compiler import host_compiler_tool

        boards = BOARDS.values()
        compilers = {board.compiler: f"compiles it for {board.name}" for board in boards}
        emulators = {board.emulator: "runs boards for `nnkit bench`, instructions counted" for board in boards}
        # A build uses none of the boards' tools, so its report does not depend on which are installed.
        for_boards = (replace(found_tool(*each), in_report=False) for each in (compilers | emulators).items())
        return host_compiler_tool("runs it on this machine"), *for_boards

    def limits(self) -> tuple[str, ...]:
        """What there is C for."""
        from nnkit.c.float.calls import MAX_RANK
        from nnkit.c.float.catalogue import CUSTOM_OPS, ONNX_OPS

        return (
            "integers: convolution (groups, depthwise), matrix product, pools, sum, product, activations, functions "
            "from tables, concatenation, nearest Resize, Pad, Reshape, Transpose, Slice",
            f"float32, operators of ONNX: {', '.join(sorted(ONNX_OPS))}",
            f"float32, operators of ai.nnkit: {', '.join(sorted(CUSTOM_OPS))}",
            "values are of fixed shapes; shapes, axes, pads and the bounds of Clip are constants",
            "windows slide over one or two dimensions; Resize is over height and width",
            f"at most {MAX_RANK} dimensions that cannot be merged",
        )


def _network(program: Program, options: AnsiCOptions) -> Network:
    from nnkit_ansi_c.network import Network
    from nnkit_ansi_c.regions import Regions

    return Network.of(program, inputs_in_arena=options.inputs == "arena", regions=Regions.of(options.regions))


def _integer_network(program: Program, options: AnsiCOptions) -> IntegerNetwork:
    from nnkit.program.affine import AffineProgram
    from nnkit_ansi_c.integer_network import IntegerNetwork
    from nnkit_ansi_c.regions import Regions

    return IntegerNetwork.of(_of(program, AffineProgram), Regions.of(options.regions))


def _of(value: object, kind: type[T]) -> T:
    """The value, which is of this kind by the options that it was made with."""
    from nnkit.errors import InternalError

    if not isinstance(value, kind):
        raise InternalError(f"{type(value).__name__} is not made with these options")
    return value
