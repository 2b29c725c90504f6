"""The onnx_qdq plugin: what the framework asks of the target, answered by the modules beside this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nnkit.rewrite import DEFAULT_RULES
from nnkit.target import API_VERSION
from nnkit_onnx_qdq.options import OnnxQdqOptions

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.memory.plan import MemoryPlan
    from nnkit.partition import Segment
    from nnkit.program import Program
    from nnkit.program.affine import AffineProgram
    from nnkit.quantize.diagnose import Diagnosis
    from nnkit.quantize.used_ranges import UsedRanges
    from nnkit.rewrite import RewriteLog
    from nnkit.target import Deployment, Machine, Quantization, Runner, Tool
    from nnkit.verify.samples import Sample


class OnnxQdqTarget:
    """Affine integers in ONNX; see `docs/onnx_qdq.md`."""

    api_version: ClassVar[int] = API_VERSION
    name: ClassVar[str] = "onnx_qdq"
    summary: ClassVar[str] = "ONNX with QuantizeLinear/DequantizeLinear: affine integers, for ONNX Runtime"
    options: ClassVar[type[OnnxQdqOptions]] = OnnxQdqOptions
    default_rules: ClassVar[tuple[str, ...]] = DEFAULT_RULES
    program_classes: ClassVar[tuple[type, ...]] = ()
    corrections: ClassVar[tuple[str, ...]] = (
        "equalize",
        "balance",
        "bias_correction",
        "refine_ranges",
        "adaround",
    )

    def machine(self, options: OnnxQdqOptions) -> Machine:
        """Whatever runs ONNX; it places its own memory."""
        from nnkit.target import Machine

        return Machine("ONNX Runtime", (), "Any host that runs ONNX models in QDQ form; memory is the runtime's.")

    def legalisation(self, options: OnnxQdqOptions) -> tuple[str, ...]:
        """The quantiser's normal form; formats are chosen per fused layer."""
        return ("fc_to_conv", "normalize_resize", "fuse_activation", "fuse_pool")

    def partition(self, model: Model, log: RewriteLog, options: OnnxQdqOptions) -> tuple[Segment, ...]:
        """All in one place; `_cpu` layers are a segment of their own and computed the same."""
        from nnkit.partition import partition

        return partition(model, log)

    def quantize(self, model: Model, quantization: Quantization, options: OnnxQdqOptions) -> Program:
        """The affine integer program."""
        from nnkit_onnx_qdq.quantize import to_program

        return to_program(model, quantization, options)

    def ranges_used(
        self, model: Model, quantization: Quantization, program: Program, options: OnnxQdqOptions
    ) -> UsedRanges:
        """Those of calibration, fitted to each tensor's format."""
        from nnkit.quantize.affine.ranges import ranges_used
        from nnkit_onnx_qdq.quantize import named_as_imported, scheme_of

        tensors = named_as_imported(_affine(program)).tensors
        return ranges_used(quantization.statistics, scheme_of(quantization, options), tensors)

    def diagnosis(
        self, original: Model, restructured: Model, quantization: Quantization, options: OnnxQdqOptions
    ) -> Diagnosis:
        """The network with any set of layers in 16 bits, for `hp: auto`."""
        from nnkit_onnx_qdq.diagnosis import AffineDiagnosis

        return AffineDiagnosis(original, restructured, quantization, options)

    def check(self, program: Program, options: OnnxQdqOptions) -> None:
        """Nothing beyond what the quantiser takes."""

    def plan(self, program: Program, options: OnnxQdqOptions) -> MemoryPlan:
        """Nothing is placed."""
        from nnkit.memory.plan import MemoryPlan

        return MemoryPlan("onnxruntime", {}, {}, {}, (), (), 0)

    def emit(self, deployment: Deployment, options: OnnxQdqOptions, folder: Path) -> None:
        """`model.onnx`."""
        from nnkit.quantize.affine import qdq_model
        from nnkit_onnx_qdq.runner import FILE

        model = qdq_model(_affine(deployment.program))
        (folder / FILE).write_bytes(model.SerializeToString(deterministic=True))

    def details(self, deployment: Deployment, options: OnnxQdqOptions, folder: Path) -> Mapping[str, Any]:
        """What each layer loses: `diagnosis`, and a line on it in `summary`."""
        from nnkit.inputs import verification_samples
        from nnkit_onnx_qdq.diagnosis import layer_table, table_summary

        held_out: Sequence[Sample] = []
        if all(deployment.recipe.verify.globs_for(spec.name) for spec in deployment.model.inputs):
            held_out = verification_samples(deployment.recipe, deployment.model)
        table = layer_table(_affine(deployment.program), deployment.model, deployment.samples, held_out, options)
        return {"diagnosis": table, "summary": table_summary(table)} if table else {}

    def runners(self, options: OnnxQdqOptions) -> tuple[Runner, ...]:
        """ONNX Runtime."""
        from nnkit_onnx_qdq.runner import OnnxRuntimeRunner

        return (OnnxRuntimeRunner(),)

    def tools(self) -> tuple[Tool, ...]:
        """None but nnkit's own dependencies."""
        return ()

    def limits(self) -> tuple[str, ...]:
        """None of its own."""
        return ()


def _affine(program: Program) -> AffineProgram:
    from nnkit.errors import InternalError
    from nnkit.program.affine import AffineProgram

    if not isinstance(program, AffineProgram):
        raise InternalError(f"a program of {program.numerics} is none of this target")
    return program
