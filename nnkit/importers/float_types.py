"""One float type: float16, bfloat16 and double become float32, which the float reference computes in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.errors import ModelError
from nnkit.importers.tensors import all_tensors, array_of
from nnkit.importers.tidy import graphs

if TYPE_CHECKING:
    import onnx

_TYPE_ATTRIBUTES = frozenset(["to", "dtype"])


def to_float32(proto: onnx.ModelProto, where: str) -> tuple[str, ...]:
    """Change every tensor, input, output and type attribute of another float type to float32; notes on it.

    Raises:
        ModelError: a double is too large for float32; the message names the tensor.
    """
    import onnx
    from onnx import numpy_helper

    others: dict[int, str] = {onnx.TensorProto.FLOAT16: "float16", onnx.TensorProto.BFLOAT16: "bfloat16"}
    others[onnx.TensorProto.DOUBLE] = "double"
    changed: dict[str, int] = {}
    for tensor in all_tensors(proto):
        kind = others.get(tensor.data_type)
        if kind is None:
            continue
        array = array_of(tensor, where)
        with np.errstate(over="ignore"):
            narrowed = np.asarray(array, dtype=np.float32)
        if kind == "double" and not np.array_equal(np.isinf(narrowed), np.isinf(array.astype(np.float64))):
            raise ModelError(
                f"tensor '{tensor.name}' holds a double beyond the range of float32",
                where=where,
                remedy="export the network in float32",
            )
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(narrowed, name))
        changed[kind] = changed.get(kind, 0) + 1
    values = 0
    for graph in graphs(proto.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type in others:
                value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
                values += 1
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name in _TYPE_ATTRIBUTES and attribute.i in others:
                    attribute.i = onnx.TensorProto.FLOAT
                    values += 1
    notes = [f"{count} {kind} tensors are taken as float32" for kind, count in sorted(changed.items())]
    if values and not notes:
        notes.append("the network's float type is taken as float32")
    return tuple(notes)
