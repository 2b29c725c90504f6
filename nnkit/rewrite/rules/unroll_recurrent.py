"""Write a recurrent layer as the steps that it takes.

Pattern: GRU or LSTM of ONNX with constant weights, one image, at most 128 steps in all.
Algebra: with x W of all steps as one 1x1 convolution, h R of each step as another,
  GRU: z = s(x_z + h_z), r = s(x_r + h_r), n = tanh(x_n + r h_n) (`linear_before_reset`), h' = n + z (h - n);
  LSTM: i, o, f = s(x + h), g = tanh(x_g + h_g), c' = f c + i g, h' = o tanh(c'); s is the logistic function.
  Relu, Softsign and Softplus may stand in the place of s and tanh.
Declines for other activations, peepholes, clipping, computed first states, lengths of sequences, a GRU that resets
before its product, and longer sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.recurrent import GATES, Recurrent, read_recurrent
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_MOST_STEPS = 128
_Match: TypeAlias = "tuple[ir.Node, Recurrent]"


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "GRU", "LSTM") else None


def check(editor: Editor, nodes: Nodes) -> _Match:
    layer = read(editor, nodes[0], partial(read_recurrent, any_function=True))
    if not layer.resets_after:
        raise Refused("it resets its state before the product (linear_before_reset is 0)")
    if layer.steps * len(layer.directions) > _MOST_STEPS:
        raise Refused(f"it takes {layer.steps} steps in {len(layer.directions)} directions")
    return nodes[0], layer


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


def unroll(editor: Editor, match: _Match) -> None:
    node, layer = match
    writer = _Writer(editor, node)
    name, hidden, steps = writer.name, layer.hidden, layer.steps
    inputs = editor.shape(data_input(node))[2]
    rows = reshaped(editor, node, data_input(node), (1, steps, inputs, 1), f"{name}_input")
    columns = editor.insert(
        node, "Transpose", [rows], {"perm": [0, 2, 1, 3]}, shape=(1, inputs, steps, 1), name=f"{name}_columns"
    )
    runs = [_run(writer, layer, columns, index) for index in range(len(layer.directions))]
    editor.copy_tags(node, writer.made)
    lasts = [states[0 if backwards else -1] for (states, _), backwards in zip(runs, layer.directions, strict=True)]
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


def _run(writer: _Writer, layer: Recurrent, columns: ir.Value, index: int) -> tuple[list[ir.Value], ir.Value | None]:
    """The states [1, H, 1, 1] of one direction, in the order of the sequence, and an LSTM's last cell."""
    hidden, steps = layer.hidden, layer.steps
    width = GATES[layer.cell] * hidden
    bias_w, bias_r = layer.bias[index, :width], layer.bias[index, width:]
    label = f"d{index}"
    projected = writer.conv(f"{label}_x", columns, layer.weights[index], bias_w)
    states: dict[int, ir.Value] = {}
    state: ir.Value | None = None
    cell: ir.Value | None = None
    for step in reversed(range(steps)) if layer.directions[index] else range(steps):
        at = f"{label}_t{step}"
        x = writer.part(f"{at}_x", projected, 2, step, 1)
        if state is None:
            zero = writer.editor.constant(f"{writer.name}_{at}.state", bias_r.reshape(1, -1, 1, 1))
            h = None if not np.any(bias_r) else zero
        else:
            h = writer.conv(f"{at}_h", state, layer.recurrent[index], bias_r)
        write = _gru if layer.cell == "GRU" else _lstm
        state, cell = write(writer, at, layer.functions[index], hidden, x, h, state, cell)
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
    functions: Sequence[str],
    size: int,
    x: ir.Value,
    h: ir.Value | None,
    state: ir.Value | None,
    cell: ir.Value | None,
) -> tuple[ir.Value, ir.Value | None]:
    gates = _gate(writer, f"{at}_zr", functions[0], x, h, 0, 2, size)
    z, r = writer.part(f"{at}_z", gates, 1, 0, size), writer.part(f"{at}_r", gates, 1, size, size)
    inner = writer.part(f"{at}_n_x", x, 1, 2 * size, size)
    if h is not None:
        inner = writer.add("Add", f"{at}_n_sum", inner, _reset(writer, at, r, h, size))
    n = writer.add(functions[1], f"{at}_n", inner)
    if state is None:
        return writer.add("Sub", f"{at}_state", n, writer.add("Mul", f"{at}_zn", z, n)), None
    kept = writer.add("Mul", f"{at}_kept", z, writer.add("Sub", f"{at}_difference", state, n))
    return writer.add("Add", f"{at}_state", n, kept), None


def _reset(writer: _Writer, at: str, r: ir.Value, h: ir.Value, size: int) -> ir.Value:
    return writer.add("Mul", f"{at}_reset", r, _h_part(writer, f"{at}_n", h, 2, 1, size))


def _lstm(
    writer: _Writer,
    at: str,
    functions: Sequence[str],
    size: int,
    x: ir.Value,
    h: ir.Value | None,
    state: ir.Value | None,
    cell: ir.Value | None,
) -> tuple[ir.Value, ir.Value | None]:
    gates = _gate(writer, f"{at}_iof", functions[0], x, h, 0, 3, size)
    i, o, f = (writer.part(f"{at}_{letter}", gates, 1, number * size, size) for number, letter in enumerate("iof"))
    g = _gate(writer, f"{at}_g", functions[1], x, h, 3, 1, size)
    new = writer.add("Mul", f"{at}_new", i, g)
    if cell is not None:
        new = writer.add("Add", f"{at}_cell", writer.add("Mul", f"{at}_kept", f, cell), new)
    return writer.add("Mul", f"{at}_state", o, writer.add(functions[2], f"{at}_tanh", new)), new


RULE = Rule("unroll_recurrent", True, "carries", __doc__ or "", _pattern, check, unroll)
