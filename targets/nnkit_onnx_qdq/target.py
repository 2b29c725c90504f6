"""The onnx_qdq plugin: what the framework asks of the target, answered by the modules beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.affine_build import CORRECTIONS, DEFAULT_CORRECTIONS
from nnkit.rewrite import DEFAULT_RULES, INTEGER_FORM
from nnkit.target import API_VERSION, Target
from nnkit_onnx_qdq.options import OnnxQdqOptions

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.memory.plan import MemoryPlan
    from nnkit.program import Program
    from nnkit.program.affine import AffineProgram
    from nnkit.quantize.lowered import LoweredLayers
    from nnkit.quantize.used_ranges import UsedRanges
    from nnkit.rewrite import RewriteLog
    from nnkit.target import Deployment, Machine, PrecisionSearch, Quantization, Runner


class OnnxQdqTarget(Target[OnnxQdqOptions, "LoweredLayers"]):
    """Affine integers in ONNX; see `docs/onnx_qdq.md`."""

    api_version = API_VERSION
    name = "onnx_qdq"
    summary = "ONNX with QuantizeLinear/DequantizeLinear: affine integers, for ONNX Runtime"
    options = OnnxQdqOptions
    default_rules = DEFAULT_RULES
    documentation = "docs/onnx_qdq.md"
    corrections = CORRECTIONS

    def machine(self, options: OnnxQdqOptions) -> Machine:
        """Whatever runs ONNX; it places its own memory."""
        from nnkit.target import Machine

        return Machine(
            "ONNX Runtime", (), "Any host that runs ONNX models in QDQ form; memory is the runtime's.", unit="CPU"
        )

    def legalisation(self, options: OnnxQdqOptions) -> tuple[str, ...]:
        """The quantiser's normal form; formats are chosen per fused layer. LRN stays in float, which is exact."""
        return tuple(rule for rule in INTEGER_FORM if rule != "lrn_to_layers")

    def lower(self, model: Model, log: RewriteLog, options: OnnxQdqOptions) -> LoweredLayers:
        """All in one place; `_cpu` layers are a segment of their own and computed the same.

        Operators that have no integers stay in float. A network that is quantised already keeps its formats and
        integers.
        """
        from nnkit.quantize.affine.lowering import lower_affine

        return lower_affine(model, log, self.documentation, keep_float=True)

    def quantize(self, lowered: LoweredLayers, quantization: Quantization, options: OnnxQdqOptions) -> Program:
        """The affine integer program."""
        from nnkit.affine_build.quantize import to_program
        from nnkit.program.affine import AffineOnnx

        program = to_program(lowered, quantization, options)
        floats = [f"{op.name} ({op.operator})" for op in program.ops if isinstance(op, AffineOnnx)]
        if not floats:
            return program
        note = f"{len(floats)} layer{'s' if len(floats) > 1 else ''} in float, between integers: {', '.join(floats)}"
        return replace(program, notes=(*program.notes, note))

    def ranges_used(
        self, lowered: LoweredLayers, quantization: Quantization, program: Program, options: OnnxQdqOptions
    ) -> UsedRanges:
        """Those of calibration, fitted to each tensor's format."""
        from nnkit.affine_build.quantize import ranges_taken

        return ranges_taken(lowered, quantization, _affine(program), options)

    def diagnosis(
        self, reference: Model, lowered: LoweredLayers, quantization: Quantization, options: OnnxQdqOptions
    ) -> PrecisionSearch:
        """The network with any set of layers in 16 bits."""
        from nnkit.affine_build.diagnosis import AffineDiagnosis
        from nnkit.target import PrecisionSearch

        settings = {
            "target": self.name,
            "options": options.model_dump(mode="json"),
            "calibration": quantization.calibration.model_dump(mode="json"),
        }
        return PrecisionSearch(settings, lambda: AffineDiagnosis(reference, lowered, quantization, options))

    def own_corrections(self, options: OnnxQdqOptions) -> tuple[str, ...]:
        """That of biases."""
        return DEFAULT_CORRECTIONS

    def gains_from_sixteen_bits(self, options: OnnxQdqOptions) -> bool:
        """Where layers have 8 bits."""
        return options.precision == "int8"

    def plan(self, lowered: LoweredLayers, program: Program, options: OnnxQdqOptions) -> MemoryPlan:
        """Nothing is placed."""
        from nnkit.memory.plan import nothing_placed

        return nothing_placed("onnxruntime")

    def emit(self, deployment: Deployment[LoweredLayers], options: OnnxQdqOptions, folder: Path) -> None:
        """`model.onnx`."""
        from nnkit.quantize.affine import qdq_model
        from nnkit_onnx_qdq.runner import FILE

        model = qdq_model(_affine(deployment.program))
        (folder / FILE).write_bytes(model.SerializeToString(deterministic=True))

    def details(
        self, deployment: Deployment[LoweredLayers], options: OnnxQdqOptions, folder: Path
    ) -> Mapping[str, Any]:
        """What each layer loses: `diagnosis`, and a line on it in `summary`."""
        from nnkit.affine_build.diagnosis import layer_table, table_summary
        from nnkit.inputs import verification_samples
        from nnkit.samples import Sample

        model, held_out = deployment.lowered.model, list[Sample]()
        if all(deployment.recipe.verify.globs_for(spec.name) for spec in model.inputs):
            held_out = list(verification_samples(deployment.recipe, model))
        table = layer_table(_affine(deployment.program), deployment.lowered, deployment.samples, held_out, options)
        return {"diagnosis": table, "summary": table_summary(table)} if table else {}

    def runners(self, options: OnnxQdqOptions) -> tuple[Runner, ...]:
        """ONNX Runtime."""
        from nnkit_onnx_qdq.runner import OnnxRuntimeRunner

        return (OnnxRuntimeRunner(),)


def _affine(program: Program) -> AffineProgram:
    from nnkit.errors import InternalError
    from nnkit.program.affine import AffineProgram

    if not isinstance(program, AffineProgram):
        raise InternalError(f"a program of {program.numerics} is none of this target")
    return program
