"""The gap8 plugin: what the framework asks of the target, answered by the modules beside this file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit_gap8.options import Gap8Options

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.input_range import InputRange
    from nnkit.memory.plan import MemoryPlan
    from nnkit.preprocess import Preprocess
    from nnkit.program import Program
    from nnkit.quantize import FixedPointScheme
    from nnkit.quantize.lowered import LoweredLayers
    from nnkit.quantize.used_ranges import UsedRanges
    from nnkit.rewrite import RewriteLog
    from nnkit.target import Deployer, Deployment, Machine, PrecisionSearch, Quantization, Runner, Shown, Tool

from nnkit.affine_build import CORRECTIONS, DEFAULT_CORRECTIONS
from nnkit.rewrite import DEFAULT_RULES, INTEGER_FORM
from nnkit.target import API_VERSION, FixedPointTarget

_CLUSTER_HZ = 150_000_000  # as the published application runs it


class Gap8Target(FixedPointTarget[Gap8Options]):
    """GreenWaves GAP8; see `docs/gap8.md`."""

    api_version = API_VERSION
    name = "gap8"
    summary = "GreenWaves GAP8: 16/8-bit fixed point C, weights streamed from L3 into 512 KiB of L2"
    options = Gap8Options
    corrections = CORRECTIONS
    documentation = "docs/gap8.md"
    default_rules = DEFAULT_RULES
    writes_postprocess = True

    def machine(self, options: Gap8Options) -> Machine:
        """L1, L2 and L3 as the options size them."""
        from nnkit.target import Machine

        return Machine(
            "GAP8",
            options.regions(),
            "RISC-V fabric controller and a cluster of 8 cores; int16 or int8 arithmetic, no floating point.",
            clock_hz=_CLUSTER_HZ,
            unit="CPU",
        )

    def legalisation(self, options: Gap8Options) -> tuple[str, ...]:
        """Fully connected layers have no kernel of their own, and formats are chosen per fused layer."""
        return INTEGER_FORM

    def options_for_quantised(self) -> Mapping[str, str]:
        """Steps of any size: those of the other scheme are powers of two."""
        return {"scheme": "affine"}

    def lower(self, model: Model, log: RewriteLog, options: Gap8Options) -> LoweredLayers:
        """`_cpu` layers run on the controller.

        Raises RecipeError for options of another scheme, ModelError for layers beyond the kernels' limits.
        """
        if options.scheme == "power_of_two":
            from nnkit.graph.quantised_already import refuse_quantised
            from nnkit.graph.view import GraphView
            from nnkit_gap8.layer_limits import check_layers

            why, keeps = "steps are powers of two", "set `scheme: affine`, which keeps its integers"
            refuse_quantised(GraphView.of(model), "cannot be deployed", why, keeps)
            lowered = super().lower(model, log, options)
            check_layers(lowered.layers, self.documentation)
            return lowered
        from nnkit.quantize.affine.lowering import lower_affine
        from nnkit_gap8.affine.scheme import check_options

        check_options(options)
        return lower_affine(model, log, self.documentation)

    def quantize(self, lowered: LoweredLayers, quantization: Quantization, options: Gap8Options) -> Program:
        """Affine integers, or power-of-two fixed point; see `scheme`.

        Of the latter the ops may come in another order, or in stripes of rows; see `nnkit_gap8.op_order` and
        `nnkit_gap8.stripe_search`.
        """
        if options.scheme == "affine":
            from nnkit.affine_build.quantize import to_program

            return to_program(lowered, quantization, options.affine)
        return self._arranged(super().quantize(lowered, quantization, options), options)

    def _arranged(self, program: Program, options: Gap8Options) -> Program:
        """The ops in an order, or in stripes, that L2 has room for."""
        if options.op_order == "given" and options.stripes == "never":
            return program
        from nnkit_gap8.checked_plan import checked_plan, loads_of, placements_for, search_machine
        from nnkit_gap8.op_order import with_least_peak
        from nnkit_gap8.stripe_search import with_stripes

        placements = placements_for(options)

        def plan(candidate: Program) -> MemoryPlan:
            return checked_plan(candidate, options, placements)

        self.check(program, options)  # only what the kernels can run can be planned
        if options.op_order == "search":
            program = with_least_peak(program, plan)
        return with_stripes(
            program,
            options.stripes,
            lambda: search_machine(program, options, placements),
            lambda part: loads_of(part, options),
            plan,
        )

    def ranges_used(
        self, lowered: LoweredLayers, quantization: Quantization, program: Program, options: Gap8Options
    ) -> UsedRanges:
        """Those of calibration, fitted to each tensor's format."""
        if options.scheme == "power_of_two":
            return super().ranges_used(lowered, quantization, program, options)
        from nnkit.affine_build.quantize import ranges_taken
        from nnkit_gap8.affine.scheme import of_scheme

        return ranges_taken(lowered, quantization, of_scheme(program), options.affine)

    def diagnosis(
        self, reference: Model, lowered: LoweredLayers, quantization: Quantization, options: Gap8Options
    ) -> PrecisionSearch:
        """The network with any set of layers in 16 bits."""
        if options.scheme == "power_of_two":
            return super().diagnosis(reference, lowered, quantization, options)
        from nnkit_gap8.affine.scheme import affine_diagnosis

        return affine_diagnosis(reference, lowered, quantization, options)

    def corrections_with(self, options: Gap8Options) -> tuple[str, ...]:
        """All of them in the affine scheme; of powers of two those of channels and biases."""
        return self.corrections if options.scheme == "affine" else ("equalize", "bias_correction")

    def own_corrections(self, options: Gap8Options) -> tuple[str, ...]:
        """Biases in the affine scheme; of powers of two all in 8 bits, where sums are rounded once and no format is
        pinned."""
        if options.scheme == "affine":
            return DEFAULT_CORRECTIONS
        fits = options.precision == "int8" and options.accumulate == "wide" and options.formats is None
        return self.corrections_with(options) if fits else ()

    def gains_from_sixteen_bits(self, options: Gap8Options) -> bool:
        """Where layers have 8 bits."""
        return options.precision == "int8"

    def beyond_the_chip(self, options: Gap8Options) -> tuple[str, ...]:
        """On-chip memories larger than GAP8's."""
        return options.memory.beyond_the_chip()

    def check(self, program: Program, options: Gap8Options) -> None:
        """The kernels' limits."""
        from nnkit.c.fixed.catalogue import CONSTRAINTS
        from nnkit.c.fixed.limits import LIMITS
        from nnkit.constraints import check_constraints

        check_constraints(program, CONSTRAINTS, LIMITS, whose="GAP8", documentation=self.documentation)

    def limits(self) -> tuple[str, ...]:
        """The kernels' limits in words."""
        from nnkit.c.fixed.catalogue import CONSTRAINTS
        from nnkit.c.fixed.limits import LIMITS
        from nnkit.constraints import constraint_text

        return tuple(constraint_text(constraint, LIMITS) for constraint in CONSTRAINTS)

    def scheme(
        self, options: Gap8Options, headroom: float, input_ranges: Mapping[str, InputRange]
    ) -> FixedPointScheme:
        """Power-of-two fixed point, as the options say."""
        from nnkit.quantize import FixedPointScheme, read_pinned_formats

        pinned = None
        if options.formats is not None:
            pinned = read_pinned_formats(options.formats.existing_file("the pinned formats"))
        return FixedPointScheme(
            bits=16 if options.precision == "int16" else 8,
            accumulate=options.accumulate,
            accumulator_bits=options.accumulator_bits,
            unsigned=options.unsigned,
            headroom=headroom,
            pinned=pinned,
            input_ranges=input_ranges,
        )

    def plan(self, lowered: LoweredLayers, program: Program, options: Gap8Options) -> MemoryPlan:
        """L1 scratch, L2 activations and streamed weights, L3 weights; replayed by the checker."""
        plan = self._planned(program, options)
        if options.scheme == "affine":
            return plan
        from nnkit_gap8.code_choice import with_code_told

        return with_code_told(program, plan, options)

    def check_room(
        self,
        program: Program,
        plan: MemoryPlan,
        options: Gap8Options,
        quantized: Callable[[Gap8Options], Program],
    ) -> None:
        """Code beside the plan in L2, or in what the plan keeps for it."""
        from nnkit_gap8.chip_fit import auto_remedy, check_code_fits, measured_of
        from nnkit_gap8.runners import compiled_code_bytes

        if options.scheme == "affine":
            from nnkit_gap8.affine.code_size import affine_code_bytes
            from nnkit_gap8.affine.scheme import planned

            most_bytes = affine_code_bytes(planned(program, options))
        else:
            from nnkit_gap8.code_choice import steps_form
            from nnkit_gap8.code_size import code_bytes

            most_bytes = code_bytes(program, plan, options, steps_form(program, plan, options))
        check_code_fits(
            program.name,
            plan,
            options,
            most_bytes,
            lambda: measured_of(self._files(program, plan, options, program.name, {}), compiled_code_bytes),
            lambda _: auto_remedy(options, lambda other: self._planned(quantized(other), other)),
        )

    def _planned(self, program: Program, options: Gap8Options) -> MemoryPlan:
        """The plan of a program. Raises DoesNotFitError."""
        if options.scheme == "affine":
            from nnkit_gap8.affine.scheme import planned

            return planned(program, options).plan
        from nnkit_gap8.checked_plan import checked_plan

        return checked_plan(program, options)

    def emit(self, deployment: Deployment[LoweredLayers], options: Gap8Options, folder: Path) -> None:
        """The C project, its weights, the three ports and the CPU stages.

        Raises ToolError where it does not link for the cluster, DoesNotFitError where L2 is too small for that.
        """
        from nnkit.c.postprocess.emit import emit_postprocess
        from nnkit.generated import write_sources
        from nnkit.inputs import picture_inputs
        from nnkit.postprocess.from_recipe import stages_of
        from nnkit_gap8.chip_fit import check_links
        from nnkit_gap8.options import L2_BYTES

        recipe, program = deployment.recipe, deployment.program
        pictures = picture_inputs(recipe, program)
        write_sources(folder, self._files(program, deployment.plan, options, recipe.name, pictures))
        if options.cluster is not None and options.memory.l2 <= L2_BYTES:
            deployment.say("linking for the cluster")
            check_links(folder)
        stages = stages_of(recipe, program)
        if stages:
            emit_postprocess(stages, folder / "postprocess")

    def _files(
        self,
        program: Program,
        plan: MemoryPlan,
        options: Gap8Options,
        name: str,
        pictures: Mapping[str, Preprocess],
    ) -> dict[str, bytes]:
        """The artifact's files without the CPU stages, by relative path."""
        if options.scheme == "affine":
            from nnkit_gap8.affine.emit import emit_affine_artifact
            from nnkit_gap8.affine.scheme import planned

            return emit_affine_artifact(planned(program, options), pictures)
        from nnkit_gap8.cluster.build import Cluster
        from nnkit_gap8.code_choice import steps_form
        from nnkit_gap8.emit import emit_artifact

        machine = options.core_machine()
        cluster = None if options.cluster is None else Cluster(program, machine)
        as_table = steps_form(program, plan, options) == "table"
        return emit_artifact(program, plan, machine, name, cluster, as_table=as_table, preprocess=pictures)

    def details(self, deployment: Deployment[LoweredLayers], options: Gap8Options, folder: Path) -> Mapping[str, Any]:
        """How layers are cut into tiles, in a build for the cluster."""
        if options.cluster is None:
            return {}
        from nnkit_gap8.cluster.build import Cluster
        from nnkit_gap8.cluster.tile_report import tile_details

        program, plan, machine = deployment.program, deployment.plan, options.core_machine()
        if options.scheme == "affine":
            from nnkit_gap8.affine.scheme import planned

            tiles = planned(program, options).tiles
            return {} if tiles is None else {"cluster": tile_details(tiles, plan, program, None)}
        return {"cluster": tile_details(Cluster(program, machine).tile_plan(plan), plan, program, machine)}

    def shown(self, details: Mapping[str, Any]) -> Shown:
        """Cycles and tiles of a build for the cluster."""
        from nnkit_gap8.shown import shown

        return shown(details, _CLUSTER_HZ)

    def runners(self, options: Gap8Options) -> tuple[Runner, ...]:
        """This host, rv32imc with the chip's memories under QEMU, and for a build in tiles a simulated cluster."""
        from nnkit_gap8.runners import HostRunner, Rv32Runner

        if options.cluster is None:
            return (HostRunner(), Rv32Runner())
        from nnkit_gap8.gvsoc_runner import GvsocRunner

        return (HostRunner(), Rv32Runner(), GvsocRunner())

    def deployer(self) -> Deployer:
        """Several networks in one L2."""
        from nnkit_gap8.deployment.deployer import Gap8Deployer

        return Gap8Deployer()

    def tools(self) -> tuple[Tool, ...]:
        """Compilers and the emulator."""
        from nnkit_gap8.tools import found_tools

        return found_tools()
