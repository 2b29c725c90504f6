"""A network with operators of `ai.nnkit`: ONNX Runtime for what it knows, numpy for those operators.

The nodes are gathered into as few pieces as their order allows: all standard nodes that can run, then all custom ones
that can, and so on. A run executes only the pieces that the asked values depend on, so that a network with a layer
that cannot be run still gives every value before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.custom_ops import DOMAIN, is_custom, run_node
from nnkit.errors import ModelError

if TYPE_CHECKING:
    import onnx

Opener = Callable[[bytes], Any]


@dataclass(frozen=True)
class ValueType:
    """Name, ONNX Runtime's word for the type (`tensor(float)`) and shape of a value."""

    name: str
    type: str
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Piece:
    """Consecutive work: a session of ONNX Runtime, or one custom node where `session` is None."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    session: Any
    node: onnx.NodeProto | None

    def run(self, values: dict[str, NDArray[Any]]) -> None:
        if self.node is not None:
            # An optional input that is absent is the empty name, last in the list.
            results = run_node(self.node, [values[name] for name in self.inputs])
        else:
            results = self.session.run(list(self.outputs), {name: values[name] for name in self.inputs})
        values.update(zip(self.outputs, results, strict=True))


class SplitSession:
    """Looks like an `onnxruntime.InferenceSession` as far as `FloatSession` uses one.

    proto: the model; its outputs are what may be fetched. opener: bytes of a model -> session of ONNX Runtime.

    Raises:
        ModelError: a custom node cannot be understood or does not fit its inputs.
    """

    def __init__(self, proto: onnx.ModelProto, opener: Opener) -> None:
        from nnkit.custom_ops import infer_shapes

        inferred = infer_shapes(proto)
        self._constants = _constants(proto)
        self._types = {info.name: info.type for info in (*inferred.graph.value_info, *inferred.graph.input)}
        typed = (info for info in inferred.graph.output if info.type.HasField("tensor_type"))
        self._types.update({info.name: info.type for info in typed})  # one that is merely fetched has no type there
        self._wanted = [output.name for output in proto.graph.output]
        self._pieces: list[_Piece] = []
        for nodes in _groups(proto):
            if is_custom(nodes[0]):
                self._pieces += [_Piece(_present(n.input), _present(n.output), None, n) for n in nodes]
            else:
                self._pieces.append(self._piece(proto, nodes, opener))

    def run(self, names: Sequence[str], feeds: dict[str, NDArray[np.float32]]) -> list[NDArray[Any]]:
        """The values of `names`, in order."""
        needed = set(names)
        chosen = []
        for piece in reversed(self._pieces):
            if needed & set(piece.outputs):
                chosen.append(piece)
                needed |= set(piece.inputs)
        values: dict[str, NDArray[Any]] = {**self._constants, **feeds}
        for piece in reversed(chosen):
            piece.run(values)
        return [values[name] for name in names]

    def get_outputs(self) -> list[ValueType]:
        """Name, type and shape of every value that may be fetched."""
        from onnx import TensorProto

        outputs = []
        for name in self._wanted:
            tensor = self._tensor_type(name)
            kind = TensorProto.DataType.Name(tensor.elem_type).lower()
            outputs.append(ValueType(name, f"tensor({kind})", tuple(d.dim_value for d in tensor.shape.dim)))
        return outputs

    def _tensor_type(self, name: str) -> Any:
        if name not in self._types or not self._types[name].HasField("tensor_type"):
            raise ModelError(
                "the type of this value cannot be inferred",
                where=name,
                remedy="import the model with fixed input shapes, or cut the network before this value",
            )
        return self._types[name].tensor_type

    def _piece(self, proto: onnx.ModelProto, nodes: list[onnx.NodeProto], opener: Opener) -> _Piece:
        from onnx import helper

        produced = {name for node in nodes for name in _present(node.output)}
        members = {id(node) for node in nodes}
        read = dict.fromkeys(name for node in nodes for name in _all_inputs(node) if name not in produced)
        later = {n for node in proto.graph.node if id(node) not in members for n in _all_inputs(node)}
        constants = [tensor for tensor in proto.graph.initializer if tensor.name in read]
        fixed = {tensor.name for tensor in constants}
        inputs = [name for name in read if name not in fixed]
        outputs = sorted(produced & (later | set(self._wanted)))
        if not outputs:  # dead nodes: nothing can ask for them
            outputs = sorted(produced)[:1]
        graph = helper.make_graph(
            nodes,
            proto.graph.name or "piece",
            [helper.make_value_info(name, self._typed(name)) for name in inputs],
            [helper.make_value_info(name, self._types[name]) for name in outputs if name in self._types],
            constants,
        )
        for name in outputs:
            if name not in self._types:
                graph.output.add(name=name)
        opsets = [opset for opset in proto.opset_import if opset.domain != DOMAIN]
        piece = helper.make_model(graph, opset_imports=opsets, ir_version=proto.ir_version)
        names = tuple(output.name for output in graph.output)
        return _Piece(tuple(inputs), names, opener(piece.SerializeToString()), None)

    def _typed(self, name: str) -> Any:
        self._tensor_type(name)
        return self._types[name]


def _groups(proto: onnx.ModelProto) -> list[list[onnx.NodeProto]]:
    """Nodes in runs of one kind, standard or custom, in an order in which they can be executed."""
    waiting = list(proto.graph.node)
    known = {info.name for info in proto.graph.input} | {tensor.name for tensor in proto.graph.initializer}
    groups: list[list[onnx.NodeProto]] = []
    custom = False
    idle = 0
    while waiting and idle < 2:
        taken, left = [], []
        for node in waiting:
            if is_custom(node) == custom and all(name in known for name in _all_inputs(node)):
                taken.append(node)
                known.update(_present(node.output))
            else:
                left.append(node)
        if taken:
            groups.append(taken)
        idle = 0 if taken else idle + 1
        waiting, custom = left, not custom
    if waiting:
        raise ModelError(
            "the network is not in topological order, or reads a value that nothing gives",
            where=waiting[0].name or waiting[0].output[0],
            remedy="check the model with another ONNX tool, or export it again",
        )
    return groups


def _constants(proto: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    from onnx import numpy_helper

    read = {name for node in proto.graph.node if is_custom(node) for name in node.input}
    return {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer if t.name in read}


def _present(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name)


def _all_inputs(node: onnx.NodeProto) -> list[str]:
    """Values that the node reads, those of its sub-graphs included."""
    names = list(_present(node.input))
    for attribute in node.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            inner = {name for child in graph.node for name in child.output}
            inner |= {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
            names += [name for child in graph.node for name in _all_inputs(child) if name not in inner]
    return names
