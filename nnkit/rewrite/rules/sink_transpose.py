"""Move the Transpose to channels-last behind the ops that work either way, towards the one that turns it back.

Pattern: Transpose [0, 2, 3, 1] -> activation; Add, Sub, Mul, Div, Max, Min or Pow with a constant, with another such
Transpose, or with one number per channel; Concat of such Transposes; ReduceMean or ReduceMax of H and W.
Algebra: f works element by element, so f(transpose(x)) = transpose(f(x)), its constants turned as well; the axis of
Concat and those of H and W are where the Transpose took them from.
Why: frameworks with channels last (Keras) export each convolution between two Transposes, with its normalisation and
activation behind them; next to each other they fold, and the Transposes cancel.
Declines where nothing behind turns the result back or reduces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnkit.graph.read.concat import read_concat
from nnkit.graph.read.reduce import read_reduce
from nnkit.graph.read.transpose import read_transpose
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read, read_or_none
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_ONE = (
    *("Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Gelu", "Elu", "Softplus", "Mish"),
    *("Exp", "Log", "Sqrt", "Neg", "Abs", "Erf", "Reciprocal"),
)
_TWO = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu")
_REDUCTIONS = ("ReduceMean", "ReduceMax")


def _to_last(editor: Editor, value: ir.Value | None) -> bool:
    node = editor.producer(value, "Transpose")
    return node is not None and read(editor, node, read_transpose).order == _LAST


def _works(editor: Editor, node: ir.Node) -> bool:
    """Whether the op gives the same in either order, looking at its kind and operands alone."""
    if node.domain or editor.mark(node) is not None or len(node.outputs) != 1:
        return False
    if is_op(node, *_ONE, *_REDUCTIONS):
        return len(editor.shape(data_input(node))) == 4
    if is_op(node, "Concat"):
        return len(editor.shape(node.outputs[0])) == 4
    return is_op(node, *_TWO) and len(node.inputs) == 2 and len(editor.shape(node.outputs[0])) == 4


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    turned = [value for value in node.inputs if _to_last(editor, value)]
    if not turned or not _works(editor, node):
        return None
    if is_op(node, *_ONE, *_REDUCTIONS) and turned[0] is not data_input(node):
        return None
    producers = [value.producer() for value in dict.fromkeys(turned) if value is not None]
    return (node, *(each for each in producers if each is not None))


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    node = nodes[0]
    if is_op(node, "Concat") and not all(_to_last(editor, value) for value in node.inputs):
        raise Refused("some of its parts are not turned to channels-last")
    if is_op(node, *_TWO):
        shape = editor.shape(node.outputs[0])
        for value in node.inputs:
            if value is None:
                raise Refused("an operand is missing")
            known = editor.shape(value)
            if editor.array(value) is not None and len(known) <= 4:
                continue
            if _to_last(editor, value) and known == shape:
                continue
            if len(known) != 4 or known[:3] != (1, 1, 1):
                raise Refused(f"'{value.name}' is neither turned to channels-last nor one number per channel")
    if is_op(node, *_REDUCTIONS):
        if read(editor, node, read_reduce).axes != (1, 2):
            raise Refused("it reduces other axes than H and W")
    elif not _is_turned_back(editor, node):
        raise Refused("nothing behind it turns its result back")
    return node


def _is_turned_back(editor: Editor, node: ir.Node) -> bool:
    """Whether a Transpose or a reduction can be reached through ops that work either way."""
    pending, seen = [node.outputs[0]], set[Any]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for reader in editor.users(value):
            transpose = read_or_none(editor, reader, read_transpose) if is_op(reader, "Transpose") else None
            if (transpose is not None and transpose.order == _FIRST) or is_op(reader, *_REDUCTIONS):
                return True
            if _works(editor, reader):
                pending.append(reader.outputs[0])
    return False


def _turned(editor: Editor, node: ir.Node, value: ir.Value | None, name: str) -> ir.Value | None:
    """An operand as it is with the channels first."""
    if value is None:
        return None
    array = editor.array(value)
    if array is not None:
        if array.size == 1:
            return value
        whole = array.reshape((1,) * (4 - array.ndim) + array.shape)
        return editor.constant(f"{name}.constant", np.ascontiguousarray(whole.transpose(_FIRST)))
    if _to_last(editor, value):
        producer = value.producer()
        return None if producer is None else data_input(producer)
    shape = editor.shape(value)
    turned = [shape[axis] for axis in _FIRST]
    return editor.insert(node, "Transpose", [value], {"perm": list(_FIRST)}, shape=turned, name=f"{name}_operand")


def _rewrite(editor: Editor, node: ir.Node) -> None:
    former = [
        value.producer() for value in dict.fromkeys(node.inputs) if value is not None and _to_last(editor, value)
    ]
    if is_op(node, *_REDUCTIONS):
        _reduce(editor, node)
    else:
        _move(editor, node)
    for transpose in former:
        if transpose is not None and editor.is_unread(transpose):
            editor.move_tags(transpose, node.outputs[0])
            editor.remove(transpose)


def _move(editor: Editor, node: ir.Node) -> None:
    name = editor.layer(node)
    attributes: dict[str, Any] = dict(node.attributes)
    operands = 1 if is_op(node, *_ONE) else len(node.inputs)  # what follows are parameters, such as a Clip's bounds
    inputs = [_turned(editor, node, value, name) for value in node.inputs[:operands]]
    if is_op(node, "Concat"):
        attributes = {"axis": _LAST[read(editor, node, read_concat).axis]}
    shape = _first(editor.shape(node.outputs[0]))
    inputs += node.inputs[operands:]
    result = editor.insert(node, str(node.op_type), inputs, attributes, shape=shape, name=f"{name}_moved")
    _behind(editor, node, result)


def _reduce(editor: Editor, node: ir.Node) -> None:
    """H and W are axes 2 and 3 before the Transpose, which goes behind where they stay as axes of length 1."""
    name, source, reduction = editor.layer(node), _turned(editor, node, data_input(node), ""), str(node.op_type)
    keeps = read(editor, node, read_reduce).keeps_dims
    attributes: dict[str, Any] = {"keepdims": int(keeps)}
    inputs = [source]
    if "axes" in node.attributes:  # before operator set 18
        attributes["axes"] = [2, 3]
    else:
        inputs.append(editor.constant(f"{name}.axes", np.array([2, 3], np.int64)))
    if not keeps:
        editor.become(node, reduction, inputs, attributes)
        return
    shape = _first(editor.shape(node.outputs[0]))
    result = editor.insert(node, reduction, inputs, attributes, shape=shape, name=f"{name}_moved")
    _behind(editor, node, result)


def _behind(editor: Editor, node: ir.Node, result: ir.Value) -> None:
    """`node` becomes the Transpose of the result of the op that does its work now."""
    editor.move_tags(node, result)
    editor.take_layer_name(result, node, "_turned")
    editor.become(node, "Transpose", [result], {"perm": list(_LAST)})


def _first(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in _FIRST)


RULE = Rule("sink_transpose", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
