"""The tpu plugin: what the framework asks of the target, answered by the modules beside this file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nnkit.errors import ToolError
from nnkit.rewrite import DEFAULT_RULES
from nnkit.target import API_VERSION, InstalledTool, Segment, Target
from nnkit_tpu.lowered import TpuLowered
from nnkit_tpu.options import TpuOptions

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.memory.plan import MemoryPlan
    from nnkit.program import Program
    from nnkit.quantize.tables import TableFormat
    from nnkit.quantize.used_ranges import UsedRanges
    from nnkit.rewrite import RewriteLog
    from nnkit.target import Deployment, Machine, PrecisionSearch, Quantization, Runner, Shown, Tool
    from nnkit_tpu.program import TpuGraph

_PURPOSE = "compile for the TPU and run its chip model"


class TpuTarget(Target[TpuOptions, TpuLowered]):
    """Sophgo TPU; see `docs/tpu.md`."""

    api_version = API_VERSION
    name = "tpu"
    summary = "Sophgo TPU: layer groups, bmodel or cvimodel by the vendor's compiler, its chip model"
    options = TpuOptions
    corrections = (
        *("adaround", "bias_correction", "float_inputs", "float_outputs", "room_for_unseen", "tune_ranges"),
    )
    documentation = "docs/tpu.md"
    # Gelu before its numbers become layers of their own; of fully connected layers `dense.py` chooses one by one.
    default_rules = ("gelu_from_parts", *(rule for rule in DEFAULT_RULES if rule != "fc_to_conv"))

    def calibration_method(self, options: TpuOptions) -> Literal["auto", "max"]:
        """Judged where there are integers; in floating point ranges do not count."""
        return "auto" if options.precision == "int8" else "max"

    def needs_ranges(self, options: TpuOptions) -> bool:
        """In INT8; of floats, ranges say only what comparisons are relative to, and what float16 does not hold."""
        return options.precision == "int8"

    def usual_calibration(self, options: TpuOptions) -> Literal["kl"]:
        """The kind that the vendor's scripts use."""
        return "kl"

    def corrections_with(self, options: TpuOptions) -> tuple[str, ...]:
        """All of them; first and last layers in floating point where there are such."""
        from nnkit.defaults import FLOAT_INPUTS, FLOAT_OUTPUTS
        from nnkit_tpu.float_inputs import can_float_inputs
        from nnkit_tpu.float_outputs import can_float_outputs

        can = {FLOAT_INPUTS: can_float_inputs(options), FLOAT_OUTPUTS: can_float_outputs(options)}
        return tuple(each for each in self.corrections if can.get(each, True))

    def own_corrections(self, options: TpuOptions) -> tuple[str, ...]:
        """All of them."""
        return self.corrections_with(options)

    def program_classes(self) -> tuple[type, ...]:
        """The ops of its programs and what they hold."""
        from nnkit_tpu.quantize import PROGRAM_CLASSES

        return PROGRAM_CLASSES

    def chips(self) -> Mapping[str, Mapping[str, Any]]:
        """Those of the maker's two families."""
        from nnkit_tpu.chips import CHIPS

        return {name: {"chip": name} for name in CHIPS}

    def machine(self, options: TpuOptions) -> Machine:
        """The chip with the local memory of one lane."""
        from nnkit.target import Machine
        from nnkit_tpu.chips import chip_named

        chip = chip_named(options.chip)
        kind = f"{chip.lanes} lanes with {chip.lane_bytes // 1024} KiB of local memory each, in {chip.banks} banks"
        return Machine(chip.name, (), f"Sophgo {chip.name}: {kind}.")

    def legalisation(self, options: TpuOptions) -> tuple[str, ...]:
        """Clean-up and folding apart, only layers without a counterpart on the TPU become others; masks, finite."""
        from nnkit_tpu.chips import CV_CHIPS

        return (
            "mask_above_zero",
            "gelu_from_parts",
            "unroll_recurrent" if options.chip in CV_CHIPS and options.batch > 1 else "unroll_uncommon_recurrent",
            "instance_norm_to_rows",
            "constant_part_to_conv",
            "gather_to_conv",
            *(() if options.chip in CV_CHIPS else ("filtered_resize_to_shuffle",)),
            "depth_to_space_to_transpose",
            "filtered_resize_to_conv",
            "uneven_resize_to_conv",
            "matrices_to_conv",
            "relu_before_copies",  # tpuc-opt 1.30.2: "can't get scale and zeropoint"; on the cv18xx wrong values
        )

    def keeps_integers(self, options: TpuOptions) -> bool:
        """In INT8, on chips that have zero points."""
        from nnkit_tpu.chips import CV_CHIPS

        return options.precision == "int8" and options.chip not in CV_CHIPS

    def lower(self, model: Model, log: RewriteLog, options: TpuOptions) -> TpuLowered:
        """One segment: all of the network runs on the TPU, or it is refused with every layer that cannot."""
        from nnkit.quantize.affine.quantized_network import is_quantized
        from nnkit_tpu import quantized
        from nnkit_tpu.batch import with_batch
        from nnkit_tpu.joined_groups import joined_groups
        from nnkit_tpu.lowering import lower

        keeps_integers = is_quantized(model)
        if keeps_integers:
            quantized.check_accepted(model, options)
            graph = joined_groups(quantized.lower(model), options.chip, "F32")
        else:
            graph = lower(model, "net", options.chip)
        with_batch(graph, options.batch)  # what mixes images is refused here
        return TpuLowered(model, (Segment("npu", tuple(op.name for op in graph.ops)),), graph, keeps_integers)

    def quantize(self, lowered: TpuLowered, quantization: Quantization, options: TpuOptions) -> Program:
        """Formats and integers as the compiler will choose them."""
        from dataclasses import replace

        from nnkit_tpu import quantized
        from nnkit_tpu.bias_correction import corrected, corrects_biases
        from nnkit_tpu.centred_maps import centred_maps
        from nnkit_tpu.centred_relus import with_centred_relus
        from nnkit_tpu.chip_forms import for_chip
        from nnkit_tpu.chips import CV_CHIPS
        from nnkit_tpu.emit import MODES
        from nnkit_tpu.float_inputs import floats_inputs, with_float_inputs
        from nnkit_tpu.float_outputs import floats_outputs, with_float_outputs
        from nnkit_tpu.pixels import pixel_format, pixel_inputs
        from nnkit_tpu.quantize import Precision, to_program
        from nnkit_tpu.thresholds import fitted
        from nnkit_tpu.weight_rounding import rounded, rounds_weights

        named = replace(lowered.graph, name=quantization.name)
        if lowered.keeps_integers:
            quantized.check_corrections(quantization)
            return quantized.to_program(named, quant_input=options.quant_input)
        graph = for_chip(named, options.chip, MODES[options.precision])
        pixels = pixel_inputs(graph.inputs, quantization.images, options)
        formats = {name: pixel_format(each) for name, each in pixels.items()}
        ranges = fitted(lowered.graph, quantization.statistics, always_signed=options.chip in CV_CHIPS).ranges
        precision = Precision(options.chip, MODES[options.precision], options.quant_input, formats)
        centres = precision.mode == "INT8" and options.chip in CV_CHIPS
        graph = centred_maps(graph, ranges) if centres else graph

        def with_symmetric(each: TpuGraph) -> Program:
            return to_program(each, ranges, precision)

        def quantise(each: TpuGraph) -> Program:
            return with_centred_relus(each, ranges, with_symmetric) if centres else with_symmetric(each)

        program = with_symmetric(graph)
        plain, notes, more = graph, tuple[str, ...](), tuple[str, ...]()
        if floats_inputs(quantization, options):
            asked = quantization.calibration.corrections is not None
            graph, notes = with_float_inputs(graph, program, asked=asked)
        if floats_outputs(quantization, options):
            graph, more = with_float_outputs(graph, program, quantization.statistics, options.chip)
        if graph is not plain or centres:
            program = quantise(graph)
        program = replace(program, notes=(*program.notes, *notes, *more))
        weights = graph
        if precision.mode == "INT8" and rounds_weights(quantization):
            graph, program = rounded(lowered.model, graph, program, quantization, quantise)
        if precision.mode == "INT8" and corrects_biases(quantization):
            program = corrected(lowered.model, graph, program, quantization, quantise, weights)
        return program

    def diagnosis(
        self, reference: Model, lowered: TpuLowered, quantization: Quantization, options: TpuOptions
    ) -> PrecisionSearch:
        """The network with any set of layers in F16 (BF16 on the cv18xx)."""
        from nnkit.target import PrecisionSearch
        from nnkit_tpu import quantized
        from nnkit_tpu.diagnosis import TpuDiagnosis

        if lowered.keeps_integers:
            quantized.refuse_search()

        def quantise(network: TpuLowered, how: Quantization) -> Program:
            return self.quantize(network, how, options)

        settings = {
            "target": self.name,
            "options": options.model_dump(mode="json"),
            "calibration": quantization.calibration.model_dump(mode="json"),
        }
        return PrecisionSearch(settings, lambda: TpuDiagnosis(reference, lowered, quantization, options, quantise))

    def gains_from_sixteen_bits(self, options: TpuOptions) -> bool:
        """Where layers have 8 bits."""
        return options.precision == "int8"

    def ranges_used(
        self, lowered: TpuLowered, quantization: Quantization, program: Program, options: TpuOptions
    ) -> UsedRanges:
        """The calibrated ranges, fitted to thresholds; of a network that is quantised already none is."""
        from nnkit.quantize import used_ranges

        if lowered.keeps_integers:
            return used_ranges.UsedRanges(quantization.statistics, frozenset())
        from nnkit_tpu.chips import CV_CHIPS
        from nnkit_tpu.thresholds import fitted

        fit = fitted(lowered.graph, quantization.statistics, always_signed=options.chip in CV_CHIPS)
        return used_ranges.UsedRanges(fit, frozenset(fit.ranges))

    def check(self, program: Program, options: TpuOptions) -> None:
        """The limits of the chip, and integers at the ends of the network where the recipe asks for them."""
        from nnkit.constraints import check_constraints
        from nnkit_tpu.constraints import PROGRAM_CONSTRAINTS, check_stored_values, chip_limits

        limits = chip_limits(options)
        check_constraints(
            program, PROGRAM_CONSTRAINTS, limits, whose=f"the {options.chip}", documentation=self.documentation
        )
        check_stored_values(program, options)

    def plan(self, lowered: TpuLowered, program: Program, options: TpuOptions) -> MemoryPlan:
        """An empty plan: the compiler places global memory. The report's `details` tell of local memory."""
        from nnkit.memory.plan import nothing_placed

        return nothing_placed("tpuc-opt")

    def emit(self, deployment: Deployment[TpuLowered], options: TpuOptions, folder: Path) -> None:
        """Sources, plan, model, traced model, runners."""
        from nnkit_tpu.emit import emit_artifact

        emit_artifact(deployment, options, folder)

    def details(self, deployment: Deployment[TpuLowered], options: TpuOptions, folder: Path) -> Mapping[str, Any]:
        """Estimated groups with why each ends, the groups that were compiled, their audit, and what was predicted."""
        from nnkit_tpu.report import report_details

        return report_details(deployment, options, folder)

    def shown(self, details: Mapping[str, Any]) -> Shown:
        """Layer groups in local memory, and cycles."""
        from nnkit_tpu.shown import shown

        return shown(details)

    def runners(self, options: TpuOptions) -> tuple[Runner, ...]:
        """The vendor's chip model."""
        from nnkit_tpu.runner import ChipModelRunner

        return (ChipModelRunner(options),)

    def tools(self) -> tuple[Tool, ...]:
        """The vendor's toolchain."""
        from nnkit.target import Tool
        from nnkit_tpu.toolchain import damage, find_toolchain
        from nnkit_tpu.toolchain.find import INSTALL_COMMAND

        try:
            installed = find_toolchain() or find_toolchain("path")
        except ToolError as error:
            return (Tool("tpuc-opt", _PURPOSE, None, "", f"{error.reason}; {error.remedy}"),)
        if installed is None:
            return (Tool("tpuc-opt", _PURPOSE, None, "", INSTALL_COMMAND),)
        where, version = str(installed.compiler), installed.version
        return (Tool("tpuc-opt", _PURPOSE, where, version, INSTALL_COMMAND, lambda: damage(installed)),)

    def calibration_table(self) -> TableFormat:
        """The compiler's calibration table."""
        from nnkit_tpu.calibration_table import table_format

        return table_format()

    def installer(self) -> Callable[[], InstalledTool]:
        """The vendor's toolchain, of the version that nnkit was tried with."""
        from nnkit_tpu.toolchain import install

        def installed() -> InstalledTool:
            done = install()
            return InstalledTool("TPU toolchain", done.version, done.folder, done.bytes, done.downloaded_bytes)

        return installed

    def limits(self) -> tuple[str, ...]:
        """What is refused, in words."""
        from nnkit.constraints import constraint_text
        from nnkit_tpu.constraints import CV_CONSTRAINTS, LAYER_CONSTRAINTS, PROGRAM_CONSTRAINTS, ChipLimits

        constraints = (*LAYER_CONSTRAINTS, *CV_CONSTRAINTS, *PROGRAM_CONSTRAINTS)

        return (
            "networks of batch 1, static shapes; `batch` says how many images the model takes at a time",
            "convolutions, transposed convolutions and pools in two dimensions with constant weights",
            *(constraint_text(constraint, ChipLimits()) for constraint in constraints),
            "fuse_preprocess: inputs made from images, all of one kind; crop, mirror and resize stay with the host",
            "quant_input, quant_output: the layers at that end of the network run in INT8",
            "networks that are quantised already: every value, in 8 bits, on the bm1684x and bm1688",
        )
