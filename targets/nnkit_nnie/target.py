"""The nnie plugin: what the framework asks of the target, answered by the modules beside this file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.target import API_VERSION, CompiledComparison, DumpComparison, Target
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.options import NnieOptions

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.memory.plan import MemoryPlan
    from nnkit.program import Program
    from nnkit.quantize.used_ranges import UsedRanges
    from nnkit.recipe import Calibration, Recipe
    from nnkit.rewrite import RewriteLog
    from nnkit.target import Corrected, Deployment, Machine, PrecisionSearch, Quantization, Runner, Shown, Tool

DEFAULT_RULES: tuple[str, ...] = (
    "remove_identity",
    "drop_nan_guard",
    "drop_softplus_guard",
    "einsum_to_matmul",
    "selu_to_elu",
    "choice_to_leaky_relu",
    "tile_to_concat",
    "merge_transposes",
    "sink_transpose",
    "simplify_clip",
    "merge_clips",
    "flatten_concat",
    "sum_to_add",
    "one_dimension_to_two",
    "global_pool",
    "merge_pad",
    "drop_padding_taps",
    "focus_to_conv",
    "fold_batch_norm",
    "fold_scale",
    "inner_fc_to_conv",
    "add_constant_to_bias",
    "floor_pool_to_conv",
    "shuffle_to_conv",
    "unshuffle_to_conv",
    "broadcast_to_concat",
    "hard_swish_to_product",
    "hard_sigmoid_to_clip",
    "clip_to_relus",
)
"""Clean-up and folding that keep the network what Caffe can express; and clamps, factors of whole channels,
shuffled channels and poolings that round down as the layers that the NNIE has."""


class NnieTarget(Target[NnieOptions, NnieLowered]):
    """HiSilicon NNIE; see `docs/nnie.md`."""

    api_version = API_VERSION
    name = "nnie"
    summary = "HiSilicon NNIE: Caffe pair, mapper cfg, GFPQ simulation, CPU segments in C"
    options = NnieOptions
    default_rules = DEFAULT_RULES
    writes_postprocess = True
    corrections = ("equalize", "raise_largest", "bias_correction")
    judges_by_task = True
    documentation = "docs/nnie.md"

    def own_corrections(self, options: NnieOptions) -> tuple[str, ...]:
        """All of them."""
        return self.corrections

    def program_classes(self) -> tuple[type, ...]:
        """The ops of its programs and what they hold."""
        from nnkit_nnie.gfpq.ops import PROGRAM_CLASSES

        return PROGRAM_CLASSES

    def chips(self) -> Mapping[str, Mapping[str, Any]]:
        """The maker's chips that have an NNIE."""
        from nnkit_nnie.chips import CHIPS

        return {name: {"chip": name} for name in CHIPS}

    def machine(self, options: NnieOptions) -> Machine:
        """The chip; its memory is the mapper's to plan."""
        from nnkit.target import Machine
        from nnkit_nnie.chips import CHIPS

        chip = CHIPS[options.chip]
        return Machine(
            chip.title, (), f"NNIE {chip.generation}, {chip.cores} core(s), compiled for by {chip.mapper}."
        )

    def legalisation(self, options: NnieOptions) -> tuple[str, ...]:
        """Masks of attention become finite, as formats have no infinity; reshapes that rewritten layers left (fully
        connected ones, those over one dimension) are moved or merged. Convolutions over three dimensions become
        such over two, and products with a matrix that heads share one product: there is C for these alone.

        Nothing else: a layer that the NNIE lacks is refused, or runs on the CPU, with the reason.
        """
        return (
            "finite_mask",
            "three_dimensions_to_two",
            "merge_matmul",
            "sink_reshape",
            "sink_equal_reshapes",
            "collapse_reshape",
            "remove_identity",
        )

    def has_one_input_scale(self) -> bool:
        """The cfg has one `data_scale`."""
        return True

    def wider_options(self, options: NnieOptions) -> Mapping[str, NnieOptions]:
        """More on the CPU: layers beyond the limits, layers between two segments of the CPU, or both."""
        layers = {"outside_limits": "custom"} if options.outside_limits == "refuse" else {}
        segments = {"join_segments": "any"} if options.join_segments != "any" else {}
        choices = [each for each in (layers, segments) if each]
        choices += [layers | segments] if len(choices) == 2 else []
        return {
            ", ".join(f"{key}: {value}" for key, value in each.items()): options.model_copy(update=each)
            for each in choices
        }

    def keeps_integers(self, options: NnieOptions) -> bool:
        """The mapper chooses them."""
        return False

    def lower(self, model: Model, log: RewriteLog, options: NnieOptions) -> NnieLowered:
        """NNIE and CPU segments, after every limit and tag rule was checked, and that the recipe's mapper is one."""
        from nnkit.graph.quantised_already import refuse_quantised
        from nnkit.graph.view import GraphView
        from nnkit_nnie.limits.context import Division
        from nnkit_nnie.mapper.run import find_mapper

        refuse_quantised(GraphView.of(model), "cannot run on the NNIE", "the mapper chooses integers itself")
        if options.mapper.run:
            find_mapper(options)  # what is wrong with it shall be known before the long stages
        return NnieLowered.of(model, Division.of(options))

    def check_recipe(self, recipe: Recipe, lowered: NnieLowered, options: NnieOptions) -> None:
        """How the inputs are delivered, and everything that the cfg has to say."""
        from nnkit_nnie.mapper.network_files import check_cfg

        check_cfg(recipe, lowered, options)

    def float_correction(
        self, lowered: NnieLowered, options: NnieOptions, calibration: Calibration
    ) -> Callable[[Quantization], Corrected[NnieLowered]] | None:
        """What changes weights and biases, which the mapper has to read in the caffemodel; where the recipe says
        nothing, that of networks with layers of 8 bits."""
        from nnkit_nnie.corrections.correct import correct
        from nnkit_nnie.gfpq.quantize import Precision

        asked = calibration.corrections
        precision = Precision.of(lowered.network, options.compile_mode)
        low = any(layer.placement == "npu" and precision.bits(layer) == 8 for layer in lowered.network.layers)
        if not (low if asked is None else asked):
            return None
        return lambda quantization: correct(lowered, quantization, options)

    def ranges_used(
        self, lowered: NnieLowered, quantization: Quantization, program: Program, options: NnieOptions
    ) -> UsedRanges:
        """The ranges as calibrated; those of values that equalisation scaled are not the network's."""
        from nnkit.quantize.used_ranges import UsedRanges
        from nnkit_nnie.corrections.equalize import EQUALIZED

        statistics = quantization.statistics
        ranges = {name: each for name, each in statistics.ranges.items() if not name.endswith(EQUALIZED)}
        return UsedRanges(replace(statistics, ranges=ranges), frozenset(ranges))

    def quantize(self, lowered: NnieLowered, quantization: Quantization, options: NnieOptions) -> Program:
        """GFPQ inputs and weights for what the NNIE runs, float for the CPU."""
        from nnkit_nnie.gfpq.quantize import Precision, input_formats, to_program
        from nnkit_nnie.stn.calibration import statistics_for

        formats = input_formats(lowered.model, quantization.input_ranges, options)
        precision = Precision.of(lowered.network, options.compile_mode)
        statistics = statistics_for(
            lowered, quantization.statistics, precision, formats, quantization.samples, options
        )
        return to_program(lowered.network, statistics, precision, name=quantization.name, inputs=formats)

    def diagnosis(
        self, reference: Model, lowered: NnieLowered, quantization: Quantization, options: NnieOptions
    ) -> PrecisionSearch:
        """The network with any set of layers in 16 bits."""
        from nnkit.target import PrecisionSearch
        from nnkit_nnie.gfpq.quantize import input_formats
        from nnkit_nnie.precision import NnieDiagnosis
        from nnkit_nnie.stn.calibration import AlignedStatistics

        formats = input_formats(lowered.model, quantization.input_ranges, options)
        statistics = quantization.statistics
        aligned = AlignedStatistics(lowered, statistics, formats, quantization.samples, options)

        settings = {
            "target": self.name,
            "options": options.model_dump(mode="json"),
            "calibration": quantization.calibration.model_dump(mode="json"),
        }
        return PrecisionSearch(
            settings,
            lambda: NnieDiagnosis(reference, lowered, statistics, options.compile_mode, formats, aligned),
        )

    def plan(self, lowered: NnieLowered, program: Program, options: NnieOptions) -> MemoryPlan:
        """Nothing is placed: the mapper plans the NNIE's memory, and the C of a CPU segment has its own arena."""
        from nnkit.memory.plan import nothing_placed

        return nothing_placed("mapper")

    def estimates(self, lowered: NnieLowered, program: Program, options: NnieOptions) -> Mapping[str, Any]:
        """The compiled network's size, its temporary memory, and the time of a run."""
        from nnkit_nnie.chips import CHIPS
        from nnkit_nnie.estimates import estimate_line, estimates_of
        from nnkit_nnie.gfpq.quantize import Precision

        bits = Precision.of(lowered.network, options.compile_mode).bits
        compressed = options.compress_mode == "normal"
        figures = estimates_of(lowered.network, bits, CHIPS[options.chip], compressed=compressed)
        return {**figures, "line": estimate_line(figures)}

    def emit(self, deployment: Deployment[NnieLowered], options: NnieOptions, folder: Path) -> None:
        """The Caffe pair, its cfg and data, segments, CPU code, test cases; compiled where a mapper is at hand."""
        from nnkit.c.postprocess.emit import emit_postprocess
        from nnkit.postprocess.from_recipe import stages_of
        from nnkit_nnie.emit import emit_artifact

        stages = stages_of(deployment.recipe, deployment.program)
        emit_artifact(deployment, options, folder)
        if stages:
            emit_postprocess(stages, folder / "postprocess")

    def details(self, deployment: Deployment[NnieLowered], options: NnieOptions, folder: Path) -> Mapping[str, Any]:
        """Chip, segments, what the mapper did, notes, and the cost of the layers in 16 bits."""
        from nnkit_nnie.report import report_details

        return report_details(deployment, options, folder)

    def shown(self, details: Mapping[str, Any]) -> Shown:
        """Segments, what the mapper did, and the usual choices of precision."""
        from nnkit_nnie.shown import shown

        return shown(details)

    def runners(self, options: NnieOptions) -> tuple[Runner, ...]:
        """The emitted pair read again, the C of CPU segments, and the mapper."""
        from nnkit_nnie.runners import CaffeRunner, CpuCodeRunner, MapperRunner

        return (CaffeRunner(), CpuCodeRunner(), MapperRunner(options))

    def dump_comparison(self) -> Callable[[Path, Program, Path], DumpComparison]:
        """Every tensor of the mapper's dumps against the simulation."""
        from nnkit_nnie.mapper.compare_dumps import compare_with_mapper

        def compare(build: Path, program: Program, dumps: Path) -> DumpComparison:
            compared, problems = compare_with_mapper(build / "artifact", program, dumps)
            return DumpComparison(
                tuple((f"{each.layer} {each.sort}", each.distance) for each in compared), tuple(problems)
            )

        return compare

    def compiled_comparison(self) -> Callable[[Path, Program, Path], CompiledComparison]:
        """The weights, biases and multipliers of a `.wk`."""
        from nnkit_nnie.wk.comparison import compare_with_wk

        return compare_with_wk

    def tools(self) -> tuple[Tool, ...]:
        """The mappers of both generations, and a C compiler."""
        from nnkit_nnie.tools import found_tools

        return found_tools()

    def limits(self) -> tuple[str, ...]:
        """All limits and tag rules in words."""
        from nnkit_nnie.limits.page import limits_in_words

        return limits_in_words()
