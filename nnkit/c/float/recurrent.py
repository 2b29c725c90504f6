"""RNN, GRU and LSTM: a call for each direction, which walks through the steps.

Source: ONNX's definitions of the three, whose order of the gates the weights keep.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.c.float.calls import Argument, Call, Code, Scratch, Struct, Table, Write, struct
from nnkit.c.float.operands import read
from nnkit.graph.read.operands import required_constant
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_SEQUENCE_LENGTHS, _FIRST_H, _FIRST_C, _PEEPHOLES = 4, 5, 6, 7


@dataclass(frozen=True)
class _Layer:
    """A node as the kernel takes it. backwards: of each direction."""

    kind: str
    steps: int
    sequences: int
    inputs: int
    hidden: int
    backwards: tuple[bool, ...]

    def shape(self, direction: int) -> Struct:
        """The `nnkit_recurrence` of a direction."""
        row, pitch = self.sequences * self.hidden, len(self.backwards)
        sizes = (self.steps, self.sequences, self.inputs, self.hidden, row * pitch, int(self.backwards[direction]))
        return struct("nnkit_recurrence", self.kind, *sizes)

    @property
    def state(self) -> int:
        """Values of a direction's state."""
        return self.sequences * self.hidden


def recurrent(graph: GraphView, node: Node) -> Code:
    layer = _layer(graph, node)
    directions = len(layer.backwards)
    gates = _GATES[node.op_type]
    weights = required_constant(graph, node, 1, "W is").reshape(directions, gates * layer.hidden, layer.inputs)
    again = required_constant(graph, node, 2, "R is").reshape(directions, gates * layer.hidden, layer.hidden)
    biases = required_constant(graph, node, 3, "B is").reshape(directions, -1) if node.input(3) else None
    x = read(graph, node.inputs[0])
    calls = []
    for at in range(directions):
        arguments: tuple[Argument, ...] = (
            x,
            Table(weights[at].reshape(-1)),
            Table(again[at].reshape(-1)),
            "0" if biases is None else Table(biases[at]),
            *(_first(graph, node, index, at * layer.state) for index in (_FIRST_H, _FIRST_C)),
            *(_result(node, index, at * layer.state) for index in range(3)),
            Scratch((gates + 3) * layer.hidden, "float"),
            layer.shape(at),
        )
        calls.append(Call("recurrent", "nnkit_recurrent", arguments))
    return calls


def _layer(graph: GraphView, node: Node) -> _Layer:
    directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    backwards = directions[node.text("direction", "forward")]
    steps, sequences, inputs = graph.shape(node.inputs[0])
    if node.integer("layout", 0):
        steps, sequences = sequences, steps
        if sequences > 1:
            raise Refused("it takes several sequences, the batch first")
    usual = _USUAL[node.op_type]
    given = [str(each) for each in node.attributes.get("activations", [])] or usual * len(backwards)
    relu = node.op_type == "RNN" and given == ["Relu"] * len(backwards)
    if given != usual * len(backwards) and not relu:
        raise Refused(f"its activations are {', '.join(given)}")
    if "clip" in node.attributes or node.integer("input_forget", 0):
        raise Refused("it clips, or couples its gates")
    if node.input(_PEEPHOLES):
        raise Refused("it has peepholes")
    lengths = graph.constant(node.input(_SEQUENCE_LENGTHS)) if node.input(_SEQUENCE_LENGTHS) else None
    if node.input(_SEQUENCE_LENGTHS) and (lengths is None or (lengths != steps).any()):
        raise Refused("its sequences have lengths of their own")
    hidden = graph.shape(node.inputs[2])[2]
    return _Layer(_kind(node, relu=relu), steps, sequences, inputs, hidden, backwards)


def _kind(node: Node, *, relu: bool) -> str:
    if node.op_type == "GRU":
        return "NNKIT_GRU" if node.integer("linear_before_reset", 0) else "NNKIT_GRU_RESET_FIRST"
    if node.op_type == "LSTM":
        return "NNKIT_LSTM"
    return "NNKIT_RNN_RELU" if relu else "NNKIT_RNN"


def _first(graph: GraphView, node: Node, index: int, offset: int) -> Argument:
    """A first state, from a direction's on; the null pointer where it is zero."""
    name = node.input(index)
    return read(graph, name, offset) if name else "0"


def _result(node: Node, index: int, offset: int) -> Write | str:
    """A result, from a direction's part on; the null pointer where it is left out."""
    name = node.outputs[index] if index < len(node.outputs) else ""
    return Write(name, offset) if name else "0"


LOWERINGS = {"GRU": recurrent, "LSTM": recurrent, "RNN": recurrent}
