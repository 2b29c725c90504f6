"""Dimensions of a value as its network declares or infers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx


def value_dims(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """Dimensions, -1 for an open one; None where not even the rank is known."""
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    return tuple(int(dim.dim_value) if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
