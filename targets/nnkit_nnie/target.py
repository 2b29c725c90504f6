"""The nnie plugin: what the framework asks of the target, answered by the modules beside this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nnkit.target import API_VERSION
from nnkit_nnie.options import NnieOptions

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.memory.plan import MemoryPlan
    from nnkit.partition import Segment
    from nnkit.program import Fixed, Float, Program
    from nnkit.quantize import InputRange
    from nnkit.quantize.diagnose import Diagnosis
    from nnkit.rewrite import RewriteLog
    from nnkit.target import Deployment, Machine, Quantization, Runner, Tool
    from nnkit.verify.metrics import Distance
    from nnkit_nnie.segments import Network

DEFAULT_RULES: tuple[str, ...] = (
    "remove_identity",
    "simplify_clip",
    "merge_clips",
    "flatten_concat",
    "sum_to_add",
    "global_pool",
    "merge_pad",
    "fold_batch_norm",
    "fold_scale",
    "add_constant_to_bias",
    "clip_to_relus",
)
"""Clean-up and folding that keep the network what Caffe can express, and clamps as the layers that the NNIE has."""


class NnieTarget:
    """HiSilicon NNIE; see `docs/nnie.md`."""

    api_version: ClassVar[int] = API_VERSION
    name: ClassVar[str] = "nnie"
    summary: ClassVar[str] = "HiSilicon NNIE: Caffe pair, mapper cfg, GFPQ simulation, CPU segments in C"
    options: ClassVar[type[NnieOptions]] = NnieOptions
    default_rules: ClassVar[tuple[str, ...]] = DEFAULT_RULES

    @property
    def program_classes(self) -> tuple[type, ...]:
        """The ops of its programs and what they hold."""
        from nnkit_nnie.ops import PROGRAM_CLASSES

        return PROGRAM_CLASSES

    def machine(self, options: NnieOptions) -> Machine:
        """The chip; its memory is the mapper's to plan."""
        from nnkit.target import Machine
        from nnkit_nnie.chips import CHIPS

        chip = CHIPS[options.chip]
        return Machine(
            chip.title, (), f"NNIE {chip.generation}, {chip.cores} core(s), compiled for by {chip.mapper}."
        )

    def legalisation(self, options: NnieOptions) -> tuple[str, ...]:
        """Reshapes between a convolution that was a fully connected layer and what follows it are moved or merged.

        Nothing else: a layer that the NNIE lacks is refused, or runs on the CPU, with the reason.
        """
        return ("sink_reshape", "collapse_reshape", "remove_identity")

    def partition(self, model: Model, log: RewriteLog, options: NnieOptions) -> tuple[Segment, ...]:
        """NNIE and CPU segments, after every limit and tag rule was checked, and that the recipe's mapper is one."""
        from nnkit.partition import Segment
        from nnkit_nnie.mapper import find_mapper

        if options.mapper.run:
            find_mapper(options)  # what is wrong with it shall be known before the long stages
        network = _divided(model, options)
        return tuple(
            Segment(segment.placement, tuple(layer.name for layer in segment.layers)) for segment in network.segments
        )

    def quantize(self, model: Model, quantization: Quantization, options: NnieOptions) -> Program:
        """GFPQ inputs and weights for what the NNIE runs, float for the CPU."""
        from nnkit_nnie.quantize import Precision, to_program
        from nnkit_nnie.stn_calibration import statistics_for

        network = _divided(model, options)
        formats = _input_formats(model, quantization.input_ranges, options)
        precision = Precision.of(network, options.compile_mode)
        statistics = statistics_for(
            network, quantization.statistics, precision, formats, quantization.samples, options
        )
        return to_program(network, statistics, precision, name=quantization.name, inputs=formats)

    def diagnosis(
        self, original: Model, restructured: Model, quantization: Quantization, options: NnieOptions
    ) -> Diagnosis:
        """The network with any set of layers in 16 bits, for `hp: auto`."""
        from nnkit_nnie.parts import division_of
        from nnkit_nnie.precision import NnieDiagnosis
        from nnkit_nnie.stn_calibration import AlignedStatistics

        formats = _input_formats(restructured, quantization.input_ranges, options)
        statistics, samples = quantization.statistics, quantization.samples

        def aligned(network: Network) -> AlignedStatistics:
            return AlignedStatistics(network, statistics, formats, samples, options)

        return NnieDiagnosis(original, restructured, statistics, division_of(options), formats, aligned)

    def check(self, program: Program, options: NnieOptions) -> None:
        """Nothing: the limits are on layers, and were checked when the network was divided."""

    def plan(self, program: Program, options: NnieOptions) -> MemoryPlan:
        """Nothing is placed: the mapper plans the NNIE's memory, and the C of a CPU segment has its own arena."""
        from nnkit.memory.plan import MemoryPlan

        return MemoryPlan(planner="mapper", regions={}, buffers={}, places={}, steps=(), chunks=(), l3_weight_bytes=0)

    def emit(self, deployment: Deployment, options: NnieOptions, folder: Path) -> None:
        """The Caffe pair, its cfg and data, segments, CPU code, test cases; compiled where a mapper is at hand."""
        from nnkit.postprocess import emit_postprocess
        from nnkit.postprocess.from_recipe import stages_of
        from nnkit_nnie.emit import emit_artifact

        stages = stages_of(deployment.recipe, deployment.program)
        emit_artifact(deployment, _divided(deployment.model, options), options, folder)
        if stages:
            emit_postprocess(stages, folder / "postprocess")

    def details(self, deployment: Deployment, options: NnieOptions, folder: Path) -> Mapping[str, Any]:
        """Chip, segments, what the mapper did, notes, and the cost of the layers in 16 bits."""
        from nnkit_nnie.report import report_details

        return report_details(deployment, _divided(deployment.model, options), options, folder)

    def runners(self, options: NnieOptions) -> tuple[Runner, ...]:
        """The emitted pair read again, the C of CPU segments, and the mapper."""
        from nnkit_nnie.runners import CaffeRunner, CpuCodeRunner, MapperRunner

        return (CaffeRunner(), CpuCodeRunner(), MapperRunner(options))

    def compare_mapper_quant(
        self, build: Path, program: Program, dumps: Path
    ) -> tuple[list[tuple[str, Distance]], Sequence[str]]:
        """Every tensor of the mapper's dumps against the simulation, and what could not be compared."""
        from nnkit_nnie.compare_dumps import compare_with_mapper

        compared, problems = compare_with_mapper(build / "artifact", program, dumps)
        return [(f"{each.layer} {each.sort}", each.distance) for each in compared], problems

    def tools(self) -> tuple[Tool, ...]:
        """The mappers of both generations, and a C compiler."""
        from nnkit_nnie.tools import found_tools

        return found_tools()

    def limits(self) -> tuple[str, ...]:
        """All limits and tag rules in words."""
        from nnkit_nnie.limits import LIMITS, limit_text
        from nnkit_nnie.limits_page import ALL_LIMITS

        return tuple(limit_text(limit, LIMITS) for limit in ALL_LIMITS)


def _input_formats(model: Model, ranges: Mapping[str, InputRange], options: NnieOptions) -> dict[str, Fixed | Float]:
    """How each input is stored: raw pixels, normalised pixels, or a vector."""
    from nnkit.program import Float
    from nnkit_nnie.ops import STORED
    from nnkit_nnie.quantize import PIXELS

    formats: dict[str, Fixed | Float] = {}
    for spec in model.inputs:
        wanted = options.inputs.get(spec.name)
        image = spec.name in ranges and (wanted is None or wanted.image_type != "vector")
        formats[spec.name] = (PIXELS if ranges[spec.name].integral else Float(32)) if image else STORED
    return formats


def _divided(model: Model, options: NnieOptions) -> Network:
    from nnkit_nnie.parts import division_of
    from nnkit_nnie.segments import divide

    return divide(model, division_of(options))
