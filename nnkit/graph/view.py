"""The one frozen view of a graph: nodes with attributes, static shapes, constants, producers and consumers.

What nodes mean is read by the typed readers in `nnkit.graph.read`. They ask little of the graph (`ReadableGraph`), so
that they serve whatever can answer: this view, or the rewriter's editor through an adapter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from numpy.typing import NDArray

from nnkit.graph.metadata import FUSE_INTO
from nnkit.graph.model import InputSpec, Model, OutputSpec
from nnkit.graph.refusal import Refused
from nnkit.graph.tags import LayerTags

if TYPE_CHECKING:
    import onnx

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Node:
    """One ONNX node.

    index: its place among all nodes of the model. name: its own, or its first output's. domain: empty for ONNX's own.
    inputs, outputs: value names, empty where an optional one is left out. attributes: as Python values, texts as str.
    """

    index: int
    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    metadata: Mapping[str, str]

    @staticmethod
    def of(proto: onnx.NodeProto, index: int = 0) -> Node:
        """The node as a view has it."""
        return Node(
            index=index,
            name=proto.name or proto.output[0],
            op_type=proto.op_type,
            domain="" if proto.domain == "ai.onnx" else proto.domain,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes=MappingProxyType({entry.name: _attribute(entry) for entry in proto.attribute}),
            metadata=MappingProxyType({entry.key: entry.value for entry in proto.metadata_props}),
        )

    def proto(self) -> onnx.NodeProto:
        """The node as ONNX has it, for what reads no views. Empty lists, which have no type, are left out."""
        from onnx import helper

        attributes = {name: value for name, value in self.attributes.items() if value != []}
        return helper.make_node(
            self.op_type, self.inputs, self.outputs, name=self.name, domain=self.domain, **attributes
        )

    @property
    def output(self) -> str:
        """The first output."""
        return self.outputs[0]

    @property
    def results(self) -> tuple[str, ...]:
        """The outputs that are there."""
        return tuple(name for name in self.outputs if name)

    @property
    def fuse_into(self) -> str | None:
        """The output of the op that the node was marked to become a part of."""
        return self.metadata.get(FUSE_INTO)

    def is_op(self, *op_types: str) -> bool:
        """Whether it is one of these ops of ONNX's own domain."""
        return self.op_type in op_types and not self.domain

    def input(self, index: int) -> str:
        """The name of an input; empty where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""

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
        """A text, or `default`."""
        return str(self.attributes.get(name, default))


class ReadableGraph(Protocol):
    """What the readers of `nnkit.graph.read` ask of a graph."""

    def shape(self, value: str) -> Shape:
        """The static shape of a value or a constant, batch included. Raises Refused where it is not known."""

    def constant(self, value: str) -> NDArray[Any] | None:
        """A constant's numbers; None for a computed value or an input that is left out."""

    def producer(self, value: str) -> Node | None:
        """The node that computes a value; None for inputs and constants."""


class Constants(Mapping[str, NDArray[Any]]):
    """Read-only arrays by name, each made from its tensor when it is first asked for."""

    def __init__(self, tensors: Mapping[str, onnx.TensorProto]) -> None:
        self._tensors = tensors
        self._arrays: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            from onnx import numpy_helper

            array = numpy_helper.to_array(self._tensors[name])
            array.flags.writeable = False
            self._arrays[name] = array
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors


@dataclass(frozen=True, eq=False)
class StoredGraph:
    """A model's protobuf message. initializers, values: the places in its lists, by name."""

    proto: onnx.ModelProto
    initializers: Mapping[str, int]
    values: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class GraphView:
    """A model for reading.

    nodes: in order of execution; Constant nodes are not among them but constants (unless a network's output is one).
    constants: of the initializers and Constant nodes. shapes: every static shape, batch included, also of constants.
    element_types: ONNX's number of each value's type, where it is known.
    """

    model: Model
    name: str
    nodes: tuple[Node, ...]
    constants: Mapping[str, NDArray[Any]]
    shapes: Mapping[str, Shape]
    element_types: Mapping[str, int]

    @cached_property
    def stored(self) -> StoredGraph:
        """The model as ONNX has it, read once; not to be edited."""
        proto = self.model.proto()
        return StoredGraph(
            proto,
            {tensor.name: index for index, tensor in enumerate(proto.graph.initializer)},
            {value.name: index for index, value in enumerate(proto.graph.value_info)},
        )

    @staticmethod
    def of(model: Model) -> GraphView:
        """Read a model. Shapes that it leaves out are inferred.

        Raises:
            ModelError: they do not go together.
        """
        from nnkit.custom_ops import infer_shapes

        graph = model.proto().graph
        outputs = {value.name for value in graph.output}
        tensors = {tensor.name: tensor for tensor in graph.initializer}
        nodes = []
        for index, proto in enumerate(graph.node):
            node = Node.of(proto, index)
            tensor = node.attributes.get("value") if node.is_op("Constant") else None
            if tensor is None or node.output in outputs:
                nodes.append(node)
            else:
                tensors[node.output] = tensor
        shapes, types = _static_shapes(graph)
        if any(name not in shapes and name not in tensors for node in nodes for name in node.results):
            inferred, types = _static_shapes(infer_shapes(model.proto()).graph)
            shapes |= inferred
        shapes |= {spec.name: spec.shape for spec in model.inputs}
        shapes |= {spec.name: spec.shape for spec in model.outputs}
        shapes |= {name: tuple(tensor.dims) for name, tensor in tensors.items()}
        types |= {name: tensor.data_type for name, tensor in tensors.items()}
        return GraphView(
            model=model,
            name=graph.name,
            nodes=tuple(nodes),
            constants=Constants(tensors),
            shapes=MappingProxyType(shapes),
            element_types=MappingProxyType(types),
        )

    def part(self, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]) -> GraphView:
        """Some of the nodes between `inputs` and `outputs`; constants and shapes are those of the whole."""
        model = replace(
            self.model,
            inputs=tuple(InputSpec(name, self.shape(name)) for name in inputs),
            outputs=tuple(OutputSpec(name, self.shape(name)) for name in outputs),
        )
        return replace(self, model=model, nodes=tuple(nodes))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The network's inputs."""
        return tuple(spec.name for spec in self.model.inputs)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The network's outputs."""
        return tuple(spec.name for spec in self.model.outputs)

    @property
    def tags(self) -> LayerTags:
        """The user's tags by value name."""
        return self.model.tags

    def shape(self, value: str) -> Shape:
        """The static shape of a value or a constant, batch included. Raises Refused where it is not known."""
        shape = self.shapes.get(value)
        if shape is None:
            raise Refused(f"the shape of value '{value}' is not known before run time")
        return shape

    def constant(self, value: str) -> NDArray[Any] | None:
        """A constant's numbers, read-only; None for a computed value or an input that is left out."""
        return self.constants.get(value)

    def producer(self, value: str) -> Node | None:
        """The node that computes a value; None for inputs and constants."""
        return self.producers.get(value)

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that computes each value."""
        return MappingProxyType({name: node for node in self.nodes for name in node.results})

    def data_inputs(self, node: Node) -> tuple[str, ...]:
        """The computed values that a node reads, in order; without constants and inputs that are left out."""
        return tuple(name for name in node.inputs if name and name not in self.constants)

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each computed value, each once, in order; values that nothing reads are not in it."""
        readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(self.data_inputs(node)):
                readers.setdefault(name, []).append(node)
        return MappingProxyType({name: tuple(nodes) for name, nodes in readers.items()})

    @cached_property
    def read_counts(self) -> Counter[str]:
        """How many inputs of nodes each value is, constants included."""
        return Counter(name for node in self.nodes for name in node.inputs if name)

    def absorbed_by(self, node: Node) -> tuple[Node, ...]:
        """The nodes that were marked to run as part of `node`, in order."""
        return self._absorbed.get(node.output, ())

    @cached_property
    def _absorbed(self) -> Mapping[str, tuple[Node, ...]]:
        parts: dict[str, tuple[Node, ...]] = {}
        for node in self.nodes:
            if node.fuse_into is not None:
                parts[node.fuse_into] = (*parts.get(node.fuse_into, ()), node)
        return parts


def _attribute(proto: onnx.AttributeProto) -> Any:
    from onnx import helper

    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if proto.type == proto.STRINGS:
        return [text.decode("utf-8", errors="replace") for text in value]
    return value


def _static_shapes(graph: onnx.GraphProto) -> tuple[dict[str, Shape], dict[str, int]]:
    """The shapes that are wholly known, and the element types, of the values that the graph tells of."""
    shapes: dict[str, Shape] = {}
    types: dict[str, int] = {}
    for value in (*graph.value_info, *graph.input, *graph.output):
        tensor = value.type.tensor_type
        types[value.name] = tensor.elem_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            shapes[value.name] = tuple(dim.dim_value for dim in tensor.shape.dim)
    return shapes, types
