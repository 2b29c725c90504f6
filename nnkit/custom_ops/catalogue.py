"""All operators of `ai.nnkit`, and their schemas for ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from nnkit.custom_ops.base import DOMAIN, VERSION, CustomOp, FloatArray, attribute_values
from nnkit.custom_ops.custom import Custom
from nnkit.custom_ops.detection_output import DetectionOutput
from nnkit.custom_ops.embedding import Embedding
from nnkit.custom_ops.non_max_suppression import FixedNonMaxSuppression
from nnkit.custom_ops.normalize import Normalize
from nnkit.custom_ops.pass_through import PassThrough
from nnkit.custom_ops.prior_box import PriorBox
from nnkit.custom_ops.proposal import Proposal
from nnkit.custom_ops.psroi_pooling import PSROIPooling
from nnkit.custom_ops.reorg import Reorg
from nnkit.custom_ops.roi_pooling import ROIPooling
from nnkit.custom_ops.warp_perspective import WarpPerspective
from nnkit.errors import ModelError

if TYPE_CHECKING:
    import onnx

CUSTOM_OPS: dict[str, type[CustomOp]] = {
    op.op_type: op
    for op in (
        Normalize,
        PriorBox,
        DetectionOutput,
        FixedNonMaxSuppression,
        Proposal,
        ROIPooling,
        PSROIPooling,
        PassThrough,
        Reorg,
        WarpPerspective,
        Embedding,
        Custom,
    )
}

_LONGEST_FOLLOWED = 1 << 16
_registering = Lock()


def is_custom(node: onnx.NodeProto) -> bool:
    """Whether the node is in the domain `ai.nnkit`."""
    return bool(node.domain == DOMAIN)


def has_custom_nodes(proto: onnx.ModelProto) -> bool:
    """Whether a model has nodes in the domain `ai.nnkit`, for which ONNX Runtime alone is not enough."""
    return any(is_custom(node) for node in proto.graph.node)


def op_of(node: onnx.NodeProto) -> CustomOp:
    """The operator of a node of `ai.nnkit`, its attributes checked.

    Raises:
        ModelError: there is no such operator, or its attributes are wrong.
    """
    name = node.name or (node.output[0] if node.output else "")
    return op_with(node.op_type, attribute_values(node), len(node.input), len(node.output), name)


def op_with(op_type: str, attributes: Mapping[str, Any], inputs: int, outputs: int, layer: str) -> CustomOp:
    """As `op_of`, of a node given by its attributes as Python values, its numbers of inputs and outputs, its name."""
    kind = CUSTOM_OPS.get(op_type)
    if kind is None:
        raise ModelError(
            f"there is no operator '{op_type}' in {DOMAIN}",
            where=layer,
            remedy=f"its operators are: {', '.join(CUSTOM_OPS)}",
        )
    return kind.from_attributes(attributes, inputs=inputs, outputs=outputs, layer=layer)


def run_node(node: onnx.NodeProto, arrays: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
    """The outputs of a node of `ai.nnkit`. Raises ModelError, with the node's name, where it cannot be run."""
    try:
        return op_of(node).run(*arrays)
    except ModelError as error:
        raise ModelError(error.reason, where=node.name or node.output[0], remedy=error.remedy) from error


def register_schemas() -> None:
    """Tell ONNX of the operators: its checker and shape inference then know them. Repeated calls do nothing."""
    from onnx import defs

    with _registering:
        for kind in CUSTOM_OPS.values():
            if not defs.has(kind.op_type, VERSION, DOMAIN):
                defs.register_schema(_schema(kind))


def infer_shapes(model: onnx.ModelProto, *, strict: bool = False) -> onnx.ModelProto:
    """The model with the shapes of its inner values, those of `ai.nnkit` operators included.

    strict: a failing inference of a standard operator is an error too.

    Raises:
        ModelError: the shapes do not go together.
    """
    from onnx import shape_inference

    register_schemas()
    try:
        return shape_inference.infer_shapes(model, strict_mode=strict, data_prop=True)
    except shape_inference.InferenceError as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "unknown")
        raise ModelError(
            f"the shapes of the network cannot be inferred: {reason.strip()}",
            remedy="correct the layer's parameters or the shapes of the inputs",
        ) from error


def infer_shapes_anew(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all shapes inferred from those of its inputs; what `model` says of others is taken out of it.

    Raises:
        onnx.shape_inference.InferenceError: the shapes or types do not go together.
    """
    from onnx import shape_inference

    register_schemas()
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=_small_vectors(model))


def _small_vectors(model: onnx.ModelProto) -> bool:
    """Whether no vector is so long that its values should not be followed one by one, as in computed shapes.

    A file of a few hundred bytes can say 10^12 of them (Range, or Concat of a value with itself, again and again).
    """
    from onnx import shape_inference

    known = shape_inference.infer_shapes(model).graph
    tensors = (value.type.tensor_type for value in (*known.value_info, *known.output))
    vectors = (tensor.shape.dim[0].dim_value for tensor in tensors if len(tensor.shape.dim) == 1)
    return max(vectors, default=0) <= _LONGEST_FOLLOWED


def _schema(kind: type[CustomOp]) -> Any:
    from onnx.defs import OpSchema

    option = OpSchema.FormalParameterOption
    types = {
        "int": OpSchema.AttrType.INT,
        "bool": OpSchema.AttrType.INT,
        "float": OpSchema.AttrType.FLOAT,
        "str": OpSchema.AttrType.STRING,
        "ints": OpSchema.AttrType.INTS,
        "floats": OpSchema.AttrType.FLOATS,
    }
    required = kind.required_attributes()
    least = len(kind.inputs) - kind.optional_inputs
    if kind.outputs is None:
        inputs = [OpSchema.FormalParameter("inputs", "T", param_option=option.Variadic, min_arity=0)]
        outputs = [OpSchema.FormalParameter("outputs", "T", param_option=option.Variadic)]
    else:
        inputs = [
            OpSchema.FormalParameter(name, "T", param_option=option.Single if i < least else option.Optional)
            for i, name in enumerate(kind.inputs)
        ]
        outputs = [OpSchema.FormalParameter(name, "T") for name in kind.outputs]
    schema = OpSchema(
        kind.op_type,
        DOMAIN,
        VERSION,
        doc=kind.__doc__ or "",
        inputs=inputs,
        outputs=outputs,
        type_constraints=[("T", ["tensor(float)"], "float32 only")],
        attributes=[
            OpSchema.Attribute(name, types[attribute], "", required=name in required)
            for name, attribute in kind.attribute_kinds().items()
        ],
    )
    schema.set_type_and_shape_inference_function(_inference(kind))
    return schema


def _inference(kind: type[CustomOp]) -> Callable[[Any], None]:
    from onnx import NodeProto, TensorProto, helper, shape_inference

    def infer(context: Any) -> None:
        shapes = [_known_shape(context.get_input_type(i)) for i in range(context.get_num_inputs())]
        given = [context.get_attribute(name) for name in kind.attribute_kinds()]
        attributes = attribute_values(NodeProto(attribute=[entry for entry in given if entry is not None]))
        if kind.outputs is not None and any(shape is None for shape in shapes):
            for index in range(context.get_num_outputs()):
                context.set_output_type(index, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
            return
        try:
            op = kind.from_attributes(attributes, inputs=len(shapes), outputs=context.get_num_outputs(), layer="")
            outputs = op.output_shapes([shape for shape in shapes if shape is not None])
        except ModelError as error:
            raise shape_inference.InferenceError(error.reason) from error
        for index, shape in enumerate(outputs):
            context.set_output_type(index, helper.make_tensor_type_proto(TensorProto.FLOAT, shape))

    return infer


def _known_shape(value: Any) -> tuple[int, ...] | None:
    """The shape where all of it is known."""
    if value is None or not value.HasField("tensor_type") or not value.tensor_type.HasField("shape"):
        return None
    dims = value.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None
