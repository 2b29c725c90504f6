"""A segment as the generator reads it: nodes with shapes, attributes and constants at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.cpu_segments.calls import RefusedError
from nnkit.graph import Model

if TYPE_CHECKING:
    import onnx

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SegmentGraph:
    """Nodes in execution order. shapes: of every float value. constants: initialisers and Constant nodes."""

    nodes: tuple[onnx.NodeProto, ...]
    shapes: Mapping[str, Shape]
    constants: Mapping[str, NDArray[Any]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @staticmethod
    def of(model: Model) -> SegmentGraph:
        """Read the model. Raises ModelError where shapes do not go together."""
        from onnx import TensorProto, helper, numpy_helper

        from nnkit.custom_ops import infer_shapes

        proto = infer_shapes(model.proto())
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
        nodes = []
        for node in proto.graph.node:
            value = next((a for a in node.attribute if a.name == "value"), None)
            if node.op_type == "Constant" and not node.domain and value is not None:
                constants[node.output[0]] = numpy_helper.to_array(helper.get_attribute_value(value))
            else:
                nodes.append(node)
        shapes: dict[str, Shape] = {}
        for info in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output):
            tensor = info.type.tensor_type
            dims = tensor.shape.dim
            if tensor.elem_type == TensorProto.FLOAT and all(dim.HasField("dim_value") for dim in dims):
                shapes[info.name] = tuple(dim.dim_value for dim in dims)
        shapes |= {spec.name: spec.shape for spec in model.inputs}
        shapes |= {spec.name: spec.shape for spec in model.outputs}
        shapes |= {name: array.shape for name, array in constants.items()}
        inputs = tuple(spec.name for spec in model.inputs)
        return SegmentGraph(tuple(nodes), shapes, constants, inputs, tuple(o.name for o in model.outputs))


@dataclass(frozen=True, eq=False)
class Layer:
    """One node of a segment. Its methods raise RefusedError where the generator cannot go on."""

    node: onnx.NodeProto
    graph: SegmentGraph

    @property
    def name(self) -> str:
        return str(self.node.name or self.node.output[0])

    @property
    def output(self) -> str:
        return str(self.node.output[0])

    def has(self, index: int) -> bool:
        """Whether the optional input is there."""
        return index < len(self.node.input) and bool(self.node.input[index])

    def input(self, index: int) -> str:
        """Name of an input, which is float."""
        name = str(self.node.input[index])
        self.shape_of(name)
        if name in self.graph.constants and self.graph.constants[name].dtype != np.float32:
            raise RefusedError(f"input '{name}' is not float32")
        return name

    def shape(self, index: int) -> Shape:
        """Shape of an input."""
        return self.shape_of(str(self.node.input[index]))

    @property
    def out_shape(self) -> Shape:
        return self.shape_of(self.output)

    def shape_of(self, name: str) -> Shape:
        """Shape of a value: known and float32, or a constant."""
        if name not in self.graph.shapes:
            raise RefusedError(f"value '{name}' is not float32 of a fixed shape")
        return self.graph.shapes[name]

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute's value, text as str."""
        from onnx import helper

        for attribute in self.node.attribute:
            if attribute.name == name:
                value = helper.get_attribute_value(attribute)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def constant(self, index: int, what: str) -> NDArray[Any]:
        """An input that must be known at compile time."""
        array = self.graph.constants.get(str(self.node.input[index]))
        if array is None:
            raise RefusedError(f"{what} must be a constant")
        return array

    def ints(self, index: int, name: str) -> list[int] | None:
        """Integers that ONNX has as an input or, in older versions, as an attribute; None where there are none."""
        if self.has(index):
            return [int(value) for value in self.constant(index, name).reshape(-1)]
        values = self.attribute(name, None)
        return None if values is None else [int(value) for value in values]

    def axis(self, default: int) -> int:
        """The attribute `axis`, counted from the front."""
        axis = int(self.attribute("axis", default))
        return axis + len(self.shape(0)) if axis < 0 else axis
