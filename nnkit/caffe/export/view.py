"""Look-ups on the graph that is written: shapes, constants, attributes, readers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.caffe.layers.context import Shape

if TYPE_CHECKING:
    import onnx

    from nnkit.graph import Model


class GraphView:
    """A network at rest."""

    def __init__(self, model: Model) -> None:
        from nnkit.custom_ops import infer_shapes

        proto = model.proto()
        self.model = model
        self.nodes: list[onnx.NodeProto] = list(proto.graph.node)
        self.name = proto.graph.name or "network"
        self._tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
        self._arrays: dict[str, NDArray[Any]] = {}
        self.shapes: dict[str, Shape] = {}
        self._read_shapes(proto.graph)
        if any(name and name not in self.shapes for node in self.nodes for name in node.output):
            self._read_shapes(infer_shapes(proto).graph)
        self.inputs = tuple(spec.name for spec in model.inputs)
        self.outputs = dict.fromkeys(spec.name for spec in model.outputs)
        self.readers = Counter(name for node in self.nodes for name in node.input if name)
        self.producers = {name: node for node in self.nodes for name in node.output if name}

    def _read_shapes(self, graph: onnx.GraphProto) -> None:
        for value in (*graph.input, *graph.output, *graph.value_info):
            kind = value.type.tensor_type
            if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
                self.shapes[value.name] = tuple(dim.dim_value for dim in kind.shape.dim)
        for tensor in graph.initializer:
            self.shapes[tensor.name] = tuple(tensor.dims)

    def constant(self, name: str) -> NDArray[Any] | None:
        """A constant's values; None for what is computed."""
        from onnx import numpy_helper

        if name not in self._tensors:
            return None
        if name not in self._arrays:
            self._arrays[name] = numpy_helper.to_array(self._tensors[name])
        return self._arrays[name]


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The node's attributes as Python values; texts as str."""
    from onnx import helper

    found = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        found[attribute.name] = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
    return found


def metadata(node: onnx.NodeProto, key: str) -> str | None:
    """An entry of the node's metadata."""
    return next((entry.value for entry in node.metadata_props if entry.key == key), None)


def scalar(array: NDArray[Any] | None) -> float | None:
    """The number in an array of one; None otherwise."""
    return float(np.asarray(array).reshape(-1)[0]) if array is not None and array.size == 1 else None
