"""The tpu plugin: what the framework asks of the target, answered by the modules beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nnkit.rewrite import DEFAULT_RULES
from nnkit.target import API_VERSION
from nnkit_tpu.options import TpuOptions

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.memory.plan import MemoryPlan
    from nnkit.partition import Segment
    from nnkit.program import Program
    from nnkit.quantize.used_ranges import UsedRanges
    from nnkit.rewrite import RewriteLog
    from nnkit.target import Deployment, Machine, Quantization, Runner, Tool
    from nnkit_tpu.program import TpuGraph


class TpuTarget:
    """Sophgo TPU; see `docs/tpu.md`."""

    api_version: ClassVar[int] = API_VERSION
    name: ClassVar[str] = "tpu"
    summary: ClassVar[str] = "Sophgo TPU: layer groups, bmodel or cvimodel by the vendor's compiler, its chip model"
    options: ClassVar[type[TpuOptions]] = TpuOptions
    corrections: ClassVar[tuple[str, ...]] = ("bias_correction",)
    default_rules: ClassVar[tuple[str, ...]] = DEFAULT_RULES

    @property
    def program_classes(self) -> tuple[type, ...]:
        """The ops of its programs and what they hold."""
        from nnkit_tpu.quantize import PROGRAM_CLASSES

        return PROGRAM_CLASSES

    def machine(self, options: TpuOptions) -> Machine:
        """The chip with the local memory of one lane."""
        from nnkit.target import Machine
        from nnkit_tpu.layer_group.chips import chip_named

        chip = chip_named(options.chip)
        kind = f"{chip.lanes} lanes with {chip.lane_bytes // 1024} KiB of local memory each, in {chip.banks} banks"
        return Machine(chip.name, (), f"Sophgo {chip.name}: {kind}.")

    def legalisation(self, options: TpuOptions) -> tuple[str, ...]:
        """Nothing beyond clean-up and folding: the compiler takes what ONNX has."""
        return ()

    def partition(self, model: Model, log: RewriteLog, options: TpuOptions) -> tuple[Segment, ...]:
        """One segment: all of the network runs on the TPU, or it is refused with every layer that cannot."""
        from nnkit.partition import Segment

        graph = _lowered(model)
        return (Segment("npu", tuple(op.name for op in graph.ops)),)

    def quantize(self, model: Model, quantization: Quantization, options: TpuOptions) -> Program:
        """Formats and integers as the compiler will choose them."""
        from dataclasses import replace

        from nnkit_tpu.bias_correction import BIAS_CORRECTION, corrected
        from nnkit_tpu.chip_forms import for_chip
        from nnkit_tpu.compile import CV_CHIPS
        from nnkit_tpu.emit import MODES
        from nnkit_tpu.pixels import pixel_format, pixel_inputs
        from nnkit_tpu.quantize import Precision, to_program
        from nnkit_tpu.thresholds import fitted

        lowered = replace(_lowered(model), name=quantization.name)
        graph = for_chip(lowered, options.chip, MODES[options.precision])
        pixels = pixel_inputs(graph.inputs, quantization.images, options)
        formats = {name: pixel_format(each) for name, each in pixels.items()}
        ranges = fitted(quantization.statistics, always_signed=options.chip in CV_CHIPS).ranges
        precision = Precision(options.chip, MODES[options.precision], options.quant_input, formats)

        def quantise(each: TpuGraph) -> Program:
            return to_program(each, ranges, precision)

        program = quantise(graph)
        if precision.mode != "INT8" or BIAS_CORRECTION not in (quantization.calibration.corrections or ()):
            return program
        return corrected(model, graph, program, quantization, quantise)

    def ranges_used(
        self, model: Model, quantization: Quantization, program: Program, options: TpuOptions
    ) -> UsedRanges:
        """Those of calibration, fitted to thresholds."""
        from nnkit.quantize import used_ranges
        from nnkit_tpu.compile import CV_CHIPS
        from nnkit_tpu.thresholds import fitted

        found = fitted(quantization.statistics, always_signed=options.chip in CV_CHIPS)
        return used_ranges.UsedRanges(found, frozenset(found.ranges))

    def check(self, program: Program, options: TpuOptions) -> None:
        """What a family of chips lacks, where the compiler would stop in the middle; ends that hold no integers."""
        from nnkit_tpu.chip_limits import check_program, check_stored_values

        check_program(program, options.chip)
        check_stored_values(program, options)

    def plan(self, program: Program, options: TpuOptions) -> MemoryPlan:
        """Nothing of global memory is placed: the compiler does. Local memory: `details` of the report."""
        from nnkit.memory.plan import MemoryPlan

        return MemoryPlan("tpuc-opt", {}, {}, {}, (), (), 0)

    def emit(self, deployment: Deployment, options: TpuOptions, folder: Path) -> None:
        """Sources, plan, model, traced model, runners."""
        from nnkit_tpu.emit import emit_artifact

        emit_artifact(deployment, options, folder)

    def details(self, deployment: Deployment, options: TpuOptions, folder: Path) -> Mapping[str, Any]:
        """Groups with why each ends, the proof, the compiler's measures, and what was predicted."""
        from nnkit_tpu.report import report_details

        return report_details(deployment, options, folder)

    def runners(self, options: TpuOptions) -> tuple[Runner, ...]:
        """The vendor's chip model."""
        from nnkit_tpu.runner import ChipModelRunner

        return (ChipModelRunner(options),)

    def tools(self) -> tuple[Tool, ...]:
        """The vendor's toolchain."""
        from nnkit.target import Tool
        from nnkit_tpu.toolchain import find_toolchain
        from nnkit_tpu.toolchain.find import INSTALL_COMMAND

        found = find_toolchain() or find_toolchain("path")
        where, version = (str(found.compiler), found.version) if found is not None else (None, "")
        return (Tool("tpuc-opt", "compile for the TPU and run its chip model", where, version, INSTALL_COMMAND),)

    def limits(self) -> tuple[str, ...]:
        """What is refused, in words."""
        return (
            "one input batch of 1 image; static shapes",
            "convolutions, transposed convolutions and pools in two dimensions with constant weights",
            "Resize: nearest by whole factors, or linear; Slice with positive steps; Pad without cropping",
            "Clip: from 0, or with both bounds",
            "fuse_preprocess: inputs made from images, all of one kind; crop, mirror and resize stay with the host",
            "quant_input, quant_output: the layers at that end of the network run in INT8",
        )


def _lowered(model: Model) -> Any:
    from nnkit_tpu.lowering import lower

    return lower(model, "net")
