"""A restructured Model as this target reads it: nodes in order, shapes, constants, tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError
from nnkit.graph import LayerTags, Model

CUSTOM_DOMAIN = "ai.nnkit"


@dataclass(frozen=True, eq=False)
class Node:
    """One ONNX node. `index` is its place in the graph; `inputs` keeps empty names of absent inputs."""

    index: int
    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    metadata: Mapping[str, str]

    def ints(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """A list of integers, or `default`."""
        return tuple(int(value) for value in self.attributes.get(name, default))

    def integer(self, name: str, default: int) -> int:
        """An integer, or `default`."""
        return int(self.attributes.get(name, default))

    def number(self, name: str, default: float) -> float:
        """A float, or `default`."""
        return float(self.attributes.get(name, default))

    def text(self, name: str, default: str) -> str:
        """A string, or `default`."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)


class Graph:
    """Nodes, static shapes (batch included), constants and tags of a Model."""

    def __init__(self, model: Model) -> None:
        from onnx import helper, numpy_helper

        proto = model.proto()
        if _lacks_shapes(proto):
            proto = _with_shapes(proto)
        graph = proto.graph
        self.model = model
        self.tags: LayerTags = model.tags
        self.constants: dict[str, NDArray[Any]] = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self.inputs = tuple(spec.name for spec in model.inputs)
        self.outputs = tuple(spec.name for spec in model.outputs)
        self._shapes: dict[str, tuple[int, ...]] = {
            value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
            for value in (*graph.input, *graph.value_info, *graph.output)
        }
        self.nodes = tuple(
            Node(
                index=index,
                name=node.name or node.output[0],
                op_type=node.op_type,
                domain="" if node.domain == "ai.onnx" else node.domain,
                inputs=tuple(node.input),
                outputs=tuple(name for name in node.output if name),
                attributes={a.name: helper.get_attribute_value(a) for a in node.attribute},
                metadata={entry.key: entry.value for entry in node.metadata_props},
            )
            for index, node in enumerate(graph.node)
        )

    def shape(self, value: str) -> tuple[int, ...]:
        """Static shape of a value, batch included. Raises InternalError where none is known."""
        if value in self.constants:
            return tuple(self.constants[value].shape)
        found = self._shapes.get(value)
        if found is None or any(side <= 0 for side in found):
            raise InternalError(f"no static shape is known (found {found})", where=value)
        return found

    def data_inputs(self, node: Node) -> tuple[str, ...]:
        """The computed values that a node reads, in order; without constants and absent inputs."""
        return tuple(name for name in node.inputs if name and name not in self.constants)

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each value."""
        found: dict[str, tuple[Node, ...]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(self.data_inputs(node)):
                found[name] = (*found.get(name, ()), node)
        return found

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that computes each value."""
        return {name: node for node in self.nodes for name in node.outputs}

    def constant_float(self, value: str) -> NDArray[np.float64] | None:
        """A constant in float64, or None for a computed value."""
        array = self.constants.get(value)
        return None if array is None else np.asarray(array, dtype=np.float64)


def _lacks_shapes(proto: Any) -> bool:
    graph = proto.graph
    known = {value.name for value in (*graph.input, *graph.value_info, *graph.output)}
    return any(name and name not in known for node in graph.node for name in node.output)


def _with_shapes(proto: Any) -> Any:
    from nnkit.custom_ops import infer_shapes

    return infer_shapes(proto)
