"""Shapes of a network whose inputs, outputs or layers an edit has changed, inferred anew by ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.custom_ops import infer_shapes_anew
from nnkit.errors import InternalError

if TYPE_CHECKING:
    import onnx


def with_inferred_shapes(proto: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """The network with the shape of every value; what `proto` says of values other than its inputs is not used.

    Args:
        where: the place in the recipe, for the message.

    Raises:
        InternalError: the graph is not valid.
    """
    import onnx

    try:
        inferred = infer_shapes_anew(proto)
        onnx.checker.check_model(inferred, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise InternalError(f"an edit left a graph that is not valid: {error}", where=where) from error
    return inferred


def static_dims(info: onnx.ValueInfoProto) -> tuple[int, ...]:
    """The dimensions of a value whose shape is static."""
    return tuple(int(dim.dim_value) for dim in info.type.tensor_type.shape.dim)
