"""A read-only view of a Model for lowering: nodes with attributes, constants, shapes and fusion marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError
from nnkit.graph import Model
from nnkit.rewrite import FUSE_INTO


@dataclass(frozen=True, eq=False)
class NodeView:
    """One ONNX node. `inputs` keeps empty names for absent optional inputs; `output` is the first of `outputs`."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any]
    fuse_into: str | None
    outputs: tuple[str, ...] = ()

    def ints(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """An integer-list attribute."""
        return tuple(int(v) for v in self.attributes.get(name, default))

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)


class GraphView:
    """Nodes in order, static shapes (batch included) and constants of a model."""

    def __init__(self, model: Model) -> None:
        import onnx
        from onnx import numpy_helper

        proto = model.proto()
        if len(proto.graph.value_info) < len(proto.graph.node) - len(proto.graph.output):
            proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
        graph = proto.graph
        self.tags = model.tags
        self.constants: dict[str, NDArray[Any]] = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self.shapes: dict[str, tuple[int, ...]] = {
            value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
            for value in (*graph.input, *graph.value_info, *graph.output)
            if value.name not in self.constants
        }
        self.nodes: tuple[NodeView, ...] = tuple(
            NodeView(
                name=node.name or node.output[0],
                op_type=node.op_type,
                inputs=tuple(node.input),
                output=node.output[0],
                attributes={a.name: onnx.helper.get_attribute_value(a) for a in node.attribute},
                fuse_into=next((p.value for p in node.metadata_props if p.key == FUSE_INTO), None),
                outputs=tuple(node.output),
            )
            for node in graph.node
        )
        self._by_output = {node.output: node for node in self.nodes}

    def shape(self, value: str) -> tuple[int, ...]:
        """Static shape of a value, batch included."""
        found = self.shapes.get(value)
        if found is None or any(d <= 0 for d in found):
            raise InternalError(f"no static shape known (found {found})", where=value)
        return found

    def constant(self, value: str) -> NDArray[Any] | None:
        """A constant's array, or None for a computed value or an absent input."""
        return self.constants.get(value)

    def absorbed_by(self, node: NodeView) -> tuple[NodeView, ...]:
        """The nodes marked to run as part of `node`, in graph order."""
        return tuple(n for n in self.nodes if n.fuse_into == node.output)

    def data_input(self, node: NodeView, index: int = 0) -> str:
        """The value a node reads, looking through a Pad that was marked to fuse into it."""
        value = node.inputs[index]
        producer = self._by_output.get(value)
        if producer is not None and producer.op_type == "Pad" and producer.fuse_into == node.output:
            return producer.inputs[0]
        return value


def float64(array: NDArray[Any]) -> NDArray[np.float64]:
    """A float64 copy."""
    return np.asarray(array, dtype=np.float64)
