"""Write a recurrent layer as the steps that it takes.

Pattern: GRU or LSTM of ONNX with constant weights, one image, at most 128 steps in all.
Algebra: with x W of all steps as one 1x1 convolution, h R of each step as another,
  GRU: z = s(x_z + h_z), r = s(x_r + h_r), n = tanh(x_n + r h_n) (`linear_before_reset`), h' = n + z (h - n);
  LSTM: i, o, f = s(x + h), g = tanh(x_g + h_g), c' = f c + i g, h' = o tanh(c'); s is the logistic function.
Declines for other activations, peepholes, clipping, computed first states, lengths of sequences, a GRU that resets
before its product, and longer sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op, operand
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_MOST_STEPS = 128
_GATES = {"GRU": 3, "LSTM": 4}
_ACTIVATIONS = {"GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


@dataclass(frozen=True, eq=False)
class _Match:
    """weights: [D, G H, I], [D, G H, H]; bias: [D, 2 G H]; by_batch: the batch is the first axis (`layout`)."""

    node: ir.Node
    directions: tuple[bool, ...]  # whether each runs backwards
    hidden: int
    weights: NDArray[np.float32]
    recurrent: NDArray[np.float32]
    bias: NDArray[np.float32]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "GRU", "LSTM") else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    read, kind = as_node(node), str(node.op_type)
    weights, recurrent = editor.array(operand(node, 1)), editor.array(operand(node, 2))
    if weights is None or recurrent is None:
        raise Refused("its weights are computed")
    direction = read.text("direction", "forward")
    directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    given = [str(each) for each in read.attributes.get("activations", [])]
    if given and given != _ACTIVATIONS[kind] * len(directions):
        raise Refused(f"its activations are {', '.join(given)}")
    if "clip" in read.attributes or read.integer("layout", 0) or read.integer("input_forget", 0):
        raise Refused("it clips, couples its gates, or has the batch first")
    if kind == "GRU" and not read.integer("linear_before_reset", 0):
        raise Refused("it resets its state before the product (linear_before_reset is 0)")
    steps, images, _ = editor.shape(data_input(node))
    if images != 1 or steps * len(directions) > _MOST_STEPS:
        raise Refused(f"it takes {steps} steps in {len(directions)} directions on {images} images")
    for index, what in ((4, "lengths of sequences"), (7, "peepholes")):
        if operand(node, index) is not None and not _is_zero(editor, operand(node, index), fill=steps):
            raise Refused(f"it has {what}")
    if not all(operand(node, i) is None or _is_zero(editor, operand(node, i)) for i in (5, 6)):
        raise Refused("its first state is not zero")
    hidden = recurrent.shape[2]
    bias = editor.array(operand(node, 3))
    if bias is None:
        if operand(node, 3) is not None:
            raise Refused("its bias is computed")
        bias = np.zeros((len(directions), 2 * _GATES[kind] * hidden), np.float32)
    return _Match(node, directions, hidden, weights, recurrent, bias)


def _is_zero(editor: Editor, value: ir.Value | None, fill: int | None = None) -> bool:
    array = editor.array(value)
    return array is not None and (not np.any(array) or (fill is not None and bool(np.all(array == fill))))


class _Writer:
    """Inserts layers before the node, named after it."""

    def __init__(self, editor: Editor, node: ir.Node) -> None:
        self.editor, self.node, self.name = editor, node, editor.layer(node)
        self.made: list[ir.Value] = []

    def add(self, op_type: str, label: str, *inputs: ir.Value, shape: tuple[int, ...] | None = None) -> ir.Value:
        shape = shape or self.editor.shape(inputs[0])
        attributes = {"axis": 1} if op_type == "Concat" else {}
        value = self.editor.insert(
            self.node, op_type, list(inputs), attributes, shape=shape, name=f"{self.name}_{label}"
        )
        self.made.append(value)
        return value

    def conv(self, label: str, value: ir.Value, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> ir.Value:
        """A 1x1 convolution; weight: [O, I]."""
        _, _, height, width = self.editor.shape(value)
        constants = [
            self.editor.constant(f"{self.name}_{label}.weight", weight[:, :, None, None]),
            self.editor.constant(f"{self.name}_{label}.bias", bias),
        ]
        attributes = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4}
        made = self.editor.insert(
            self.node,
            "Conv",
            [value, *constants],
            attributes,
            shape=(1, len(weight), height, width),
            name=f"{self.name}_{label}",
        )
        self.made.append(made)
        return made

    def part(self, label: str, value: ir.Value, axis: int, start: int, size: int) -> ir.Value:
        """A slice along one axis."""
        shape = list(self.editor.shape(value))
        shape[axis] = size
        numbers = [
            self.editor.constant(f"{self.name}_{label}.{what}", np.array([number], np.int64))
            for what, number in (("starts", start), ("ends", start + size), ("axes", axis))
        ]
        return self.add("Slice", label, value, *numbers, shape=tuple(shape))


def _rewrite(editor: Editor, match: _Match) -> None:
    node, writer = match.node, _Writer(editor, match.node)
    name, hidden = writer.name, match.hidden
    steps, _, inputs = editor.shape(data_input(node))
    rows = reshaped(editor, node, data_input(node), (1, steps, inputs, 1), f"{name}_input")
    columns = editor.insert(
        node, "Transpose", [rows], {"perm": [0, 2, 1, 3]}, shape=(1, inputs, steps, 1), name=f"{name}_columns"
    )
    runs = [_run(writer, match, columns, index, steps) for index in range(len(match.directions))]
    editor.copy_tags(node, writer.made)
    lasts = [states[0 if backwards else -1] for (states, _), backwards in zip(runs, match.directions, strict=True)]
    cells = [cell for _, cell in runs]
    outputs = list(node.outputs)
    wanted = [index for index, value in enumerate(outputs) if value.uses() or value.is_graph_output()]
    for index in wanted:
        if index == 0:
            every = [states[step] for step in range(steps) for states, _ in runs]
        else:
            every = lasts if index == 1 else [cell for cell in cells if cell is not None]
        joined = writer.add("Concat", f"all{index}", *every, shape=(1, len(every) * hidden, 1, 1))
        result = reshaped(editor, node, joined, editor.shape(outputs[index]), f"{name}_result{index}")
        editor.copy_tags(node, [joined])
        editor.supersede(outputs[index], result)
    editor.remove(node)


def _run(
    writer: _Writer, match: _Match, columns: ir.Value, index: int, steps: int
) -> tuple[list[ir.Value], ir.Value | None]:
    """The states [1, H, 1, 1] of one direction, in the order of the sequence, and an LSTM's last cell."""
    hidden, kind = match.hidden, str(match.node.op_type)
    width = _GATES[kind] * hidden
    bias_w, bias_r = match.bias[index, :width], match.bias[index, width:]
    label = f"d{index}"
    projected = writer.conv(f"{label}_x", columns, match.weights[index], bias_w)
    states: dict[int, ir.Value] = {}
    state: ir.Value | None = None
    cell: ir.Value | None = None
    for step in reversed(range(steps)) if match.directions[index] else range(steps):
        at = f"{label}_t{step}"
        x = writer.part(f"{at}_x", projected, 2, step, 1)
        if state is None:
            zero = writer.editor.constant(f"{writer.name}_{at}.state", bias_r.reshape(1, -1, 1, 1))
            h = None if not np.any(bias_r) else zero
        else:
            h = writer.conv(f"{at}_h", state, match.recurrent[index], bias_r)
        state, cell = (_gru if kind == "GRU" else _lstm)(writer, at, hidden, x, h, state, cell)
        states[step] = state
    return [states[step] for step in range(steps)], cell


def _gate(
    writer: _Writer, label: str, function: str, x: ir.Value, h: ir.Value | None, number: int, count: int, size: int
) -> ir.Value:
    """function(x + h) of `count` gates from `number` on. h: computed, or a constant of the first step; None: zero."""
    part = writer.part(f"{label}_x", x, 1, number * size, count * size)
    if h is not None:
        part = writer.add("Add", f"{label}_sum", part, _h_part(writer, label, h, number, count, size))
    return writer.add(function, label, part)


def _h_part(writer: _Writer, label: str, h: ir.Value, number: int, count: int, size: int) -> ir.Value:
    array = writer.editor.array(h)
    if array is None:
        return writer.part(f"{label}_h", h, 1, number * size, count * size)
    return writer.editor.constant(f"{writer.name}_{label}.first", array[:, number * size : (number + count) * size])


def _gru(
    writer: _Writer,
    at: str,
    size: int,
    x: ir.Value,
    h: ir.Value | None,
    state: ir.Value | None,
    cell: ir.Value | None,
) -> tuple[ir.Value, ir.Value | None]:
    gates = _gate(writer, f"{at}_zr", "Sigmoid", x, h, 0, 2, size)
    z, r = writer.part(f"{at}_z", gates, 1, 0, size), writer.part(f"{at}_r", gates, 1, size, size)
    inner = writer.part(f"{at}_n_x", x, 1, 2 * size, size)
    if h is not None:
        inner = writer.add("Add", f"{at}_n_sum", inner, _reset(writer, at, r, h, size))
    n = writer.add("Tanh", f"{at}_n", inner)
    if state is None:
        return writer.add("Sub", f"{at}_state", n, writer.add("Mul", f"{at}_zn", z, n)), None
    kept = writer.add("Mul", f"{at}_kept", z, writer.add("Sub", f"{at}_difference", state, n))
    return writer.add("Add", f"{at}_state", n, kept), None


def _reset(writer: _Writer, at: str, r: ir.Value, h: ir.Value, size: int) -> ir.Value:
    return writer.add("Mul", f"{at}_reset", r, _h_part(writer, f"{at}_n", h, 2, 1, size))


def _lstm(
    writer: _Writer,
    at: str,
    size: int,
    x: ir.Value,
    h: ir.Value | None,
    state: ir.Value | None,
    cell: ir.Value | None,
) -> tuple[ir.Value, ir.Value | None]:
    gates = _gate(writer, f"{at}_iof", "Sigmoid", x, h, 0, 3, size)
    i, o, f = (writer.part(f"{at}_{letter}", gates, 1, number * size, size) for number, letter in enumerate("iof"))
    g = _gate(writer, f"{at}_g", "Tanh", x, h, 3, 1, size)
    new = writer.add("Mul", f"{at}_new", i, g)
    if cell is not None:
        new = writer.add("Add", f"{at}_cell", writer.add("Mul", f"{at}_kept", f, cell), new)
    return writer.add("Mul", f"{at}_state", o, writer.add("Tanh", f"{at}_tanh", new)), new


RULE = Rule("unroll_recurrent", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
