"""Normalisation of a whole feature by its length: how networks write it, and how Caffe's basic layers can.

All forms that are read come to   y = c * x / sqrt(sum(x^2) + a)   over all elements of x, or, with a floor f, to
y = c * x / max(||x||, f). A mean instead of the sum is the same with other constants, n being the element count:

    x / sqrt(mean(x^2) + a) = sqrt(n) * x / sqrt(sum(x^2) + n a)
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from nnkit.graph.metadata import CAFFE_BOTTOMS, CAFFE_LAYER, CAFFE_PARAM, CAFFE_TYPE
from nnkit.graph.read.axis import read_axis
from nnkit.graph.read.reduce import read_reduce
from nnkit.graph.refusal import Refused
from nnkit.rewrite.broadcast import concat_plan
from nnkit.rewrite.reading import as_node, data_input, is_op, operand, read, scalar_of
from nnkit.rewrite.rule import Nodes

if TYPE_CHECKING:
    import onnx_ir as ir

    from nnkit.rewrite.editor import Editor

Reduce = Literal["sum", "mean"]
MAX_LENGTH = 4096
"""The largest dimension of a feature map on the hardware that this is for: the feature lies along one axis."""

GAIN = 1024.0
"""What the reciprocal length, and with it the product, are multiplied by until the last layer.

The hardware that this is for stores every layer's result in steps of 2^-12. The reciprocal of a length of 128 is 32
such steps: an error of up to 1.6 % in the length of y. A power of two costs nothing: it is exact in float, moves a
logarithmic grid onto itself, and its reciprocal folds into the layer behind. 1024 leaves lengths from 1/512 on within
the range of 20 bits before the point and 12 behind it.
"""

_TOTALS = ("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL2")


@dataclass(frozen=True, eq=False)
class Norm:
    """y = factor * x / sqrt(sum(x^2) + a), or y = factor * x / max(||x||, floor) where `floor` is not 0.

    nodes: between x and y, the one that gives y last.
    """

    nodes: Nodes
    source: ir.Value
    a: float
    factor: float = 1.0
    floor: float = 0.0

    @property
    def result(self) -> ir.Value:
        """y."""
        return self.nodes[-1].outputs[0]


def norm_nodes(editor: Editor, node: ir.Node) -> Nodes | None:
    """The nodes of a normalisation whose last one is `node`, x's readers first; None where it has not that form.

    The form: LpNormalization or Normalize; or x divided by (or multiplied with the reciprocal of) what is computed
    from a sum or mean of x's squares.
    """
    if is_op(node, "LpNormalization") or (node.op_type == "Normalize" and node.domain == "ai.nnkit"):
        return (node,)
    if not is_op(node, "Div", "Mul") or len(node.inputs) != 2:
        return None
    for data, other in (node.inputs, node.inputs[::-1]):
        if data is None or other is None or (node.op_type == "Div" and data is not node.inputs[0]):
            continue
        chain = _chain_to_total(editor, other)
        if chain is not None and chain[0].inputs[0] is not None:
            square = _square_of(editor, chain[0])
            if square is data:
                squares = () if is_op(chain[0], "ReduceSumSquare", "ReduceL2") else (_producer(chain[0]),)
                return (*squares, *chain, node)
    return None


def _producer(node: ir.Node) -> ir.Node:
    producer = data_input(node).producer()
    if producer is None:
        raise ValueError("a reduction of a network input")
    return producer


def _chain_to_total(editor: Editor, value: ir.Value) -> list[ir.Node] | None:
    """The nodes from a reduction to `value`, each an operation on one number with constants."""
    chain: list[ir.Node] = []
    while len(chain) < 8:
        node = value.producer()
        if node is None:
            return None
        chain.insert(0, node)
        if is_op(node, *_TOTALS):
            return chain
        if not is_op(
            node, "Sqrt", "Pow", "Reciprocal", "Div", "Add", "Mul", "Max", "Clip", "Expand", "Reshape", "Unsqueeze"
        ):
            return None
        computed = [v for v in node.inputs if v is not None and editor.array(v) is None]
        if len(computed) != 1:
            return None
        value = computed[0]
    return None


def _square_of(editor: Editor, total: ir.Node) -> ir.Value | None:
    """The x of whose squares `total` is the sum, the mean, or the length."""
    value = data_input(total)
    if is_op(total, "ReduceSumSquare", "ReduceL2"):
        return value
    square = value.producer()
    if square is None or not is_op(square, "Mul", "Pow"):
        return None
    if square.op_type == "Mul":
        return square.inputs[0] if square.inputs[0] is square.inputs[1] else None
    return square.inputs[0] if scalar_of(editor, operand(square, 1)) == 2.0 else None


def read_norm(editor: Editor, nodes: Nodes) -> Norm:
    """The normalisation that `norm_nodes` gave. Raises Refused where it is none of the whole feature."""
    last = nodes[-1]
    if is_op(last, "LpNormalization"):
        return _read_lp(editor, last)
    if last.op_type == "Normalize":
        return _read_normalize(editor, last)
    total = next(node for node in nodes if is_op(node, *_TOTALS))
    source = _square_of(editor, total)
    if source is None:
        raise Refused("it does not divide by the length of what it scales")
    shape = editor.shape(source)
    length = math.prod(shape)
    if math.prod(editor.shape(total.outputs[0])) != 1 or not _covers(editor, total, shape):
        raise Refused(_each_position(shape))
    return _follow(editor, nodes, nodes.index(total), source, length)


def _covers(editor: Editor, total: ir.Node, shape: Sequence[int]) -> bool:
    covered = read(editor, total, read_reduce).axes
    return all(size == 1 for axis, size in enumerate(shape) if axis not in covered)


def _each_position(shape: Sequence[int]) -> str:
    return f"it normalises each position of {list(shape)} by itself, not the whole feature by one length"


@dataclass
class _State:
    """What stands at one node: power * (scale * sum + shift), or its square root's inverse and so on.

    The number is (scale * S + shift) ** exponent with S the sum of squares; floor: of its square root.
    """

    scale: float = 1.0
    shift: float = 0.0
    exponent: float = 1.0
    floor: float = 0.0


def _follow(editor: Editor, nodes: Nodes, start: int, source: ir.Value, length: int) -> Norm:
    total, last = nodes[start], nodes[-1]
    state = _State()
    if is_op(total, "ReduceMean"):
        state.scale = 1.0 / length
    if is_op(total, "ReduceL2"):
        state.exponent = 0.5
    for node in nodes[start + 1 : -1]:
        problem = _step(editor, node, state)
        if problem:
            raise Refused(problem)
    exponent = -state.exponent if is_op(last, "Div") else state.exponent
    if exponent != -0.5 or state.scale <= 0.0:
        raise Refused(f"it scales by the power {exponent:g} of the squared length; a normalisation has -0.5")
    return Norm(
        nodes,
        source,
        a=state.shift / state.scale,
        factor=state.scale**-0.5,
        floor=state.floor * state.scale**-0.5,
    )


def _step(editor: Editor, node: ir.Node, state: _State) -> str:
    """Take one operation into `state`; returns why it cannot be, or nothing."""
    if is_op(node, "Expand", "Reshape", "Unsqueeze"):
        return ""
    if is_op(node, "Sqrt", "Reciprocal"):
        state.exponent *= 0.5 if node.op_type == "Sqrt" else -1.0
        return ""
    if is_op(node, "Clip"):
        low, high = scalar_of(editor, operand(node, 1)), operand(node, 2)
        if low is None or high is not None:
            return "it clamps the length at both ends"
        return _floor(state, low)
    constants = [scalar_of(editor, value) for value in node.inputs if editor.array(value) is not None]
    constant = constants[0] if len(constants) == 1 else None
    if constant is None:
        return f"the constant of its {node.op_type} is not one number"
    if is_op(node, "Max"):
        return _floor(state, constant)
    if is_op(node, "Pow"):
        if editor.array(operand(node, 1)) is None:
            return "its power is computed"
        state.exponent *= constant
        return ""
    if is_op(node, "Div"):
        if editor.array(operand(node, 0)) is None:
            return _multiply(state, 1.0 / constant) if constant else "it divides by zero"
        state.exponent *= -1.0
        return _multiply(state, constant)
    if is_op(node, "Mul"):
        return _multiply(state, constant)
    if state.exponent != 1.0 or state.floor:
        return f"it adds {constant:g} to the length, not to the square of the length"
    state.shift += constant
    return ""


def _multiply(state: _State, factor: float) -> str:
    if factor <= 0.0:
        return f"it multiplies the length with {factor:g}"
    gain = factor ** (1.0 / state.exponent)
    state.scale, state.shift, state.floor = state.scale * gain, state.shift * gain, state.floor * gain**0.5
    return ""


def _floor(state: _State, low: float) -> str:
    if state.exponent not in (0.5, 1.0) or state.shift or low < 0:
        return "it bounds something else than the length from below"
    state.floor = max(state.floor, low if state.exponent == 0.5 else math.sqrt(low))
    return ""


def _read_lp(editor: Editor, node: ir.Node) -> Norm:
    source = data_input(node)
    shape = editor.shape(source)
    power = as_node(node).integer("p", 2)
    if power != 2:
        raise Refused(f"it divides by the sum of magnitudes (p = {power}), not by the length")
    axis = read(editor, node, read_axis)
    if any(size != 1 for index, size in enumerate(shape) if index != axis):
        raise Refused(_each_position(shape))
    return Norm((node,), source, a=0.0)


def _read_normalize(editor: Editor, node: ir.Node) -> Norm:
    """ai.nnkit Normalize: Caffe's layer, y = scale * x / sqrt(sum(x^2) + eps)."""
    source = data_input(node)
    shape = editor.shape(source)
    if not as_node(node).integer("across_spatial", 1) and any(size != 1 for size in shape[2:]):
        raise Refused(_each_position(shape))
    scale = operand(node, 1)
    factor = 1.0 if scale is None else scalar_of(editor, scale)
    if factor is None or factor <= 0.0:
        raise Refused("its scale is not one positive number for all channels")
    return Norm((node,), source, a=as_node(node).number("eps", 1e-10), factor=factor)


def build_norm(
    editor: Editor, before: ir.Node, source: ir.Value, *, a: float, factor: float, reduce: Reduce, name: str
) -> ir.Value:
    """GAIN * factor * x / sqrt(sum(x^2) + a) in front of `before`, [1, 1, 1, n], from layers that Caffe has.

        flat   = x as [1, 1, 1, n]                      Reshape
        total  = sum or mean of flat^2                  Power, Reduction
        r      = (g total + h)^(-1/2)                   Power; factor, GAIN and the 1/n of a mean are in g and h
        spread = r, n times along H, then as [1,1,1,n]  Concat of at most 32 inputs each, Reshape
        result = flat * spread                          Eltwise product

    Args:
        reduce: which total; the result is the same, but a mean keeps the squares small for fixed point.
    """
    length = math.prod(editor.shape(source))
    flat = _reshaped(editor, before, source, (1, 1, 1, length), f"{name}_flat")
    two = editor.constant(f"{name}_sq.power", np.array(2.0, np.float32))
    square = editor.insert(before, "Pow", [flat, two], {}, shape=(1, 1, 1, length), name=f"{name}_sq")
    total = _reduced(editor, before, square, reduce, f"{name}_red")
    squared = (GAIN * factor) ** 2
    scale = (length if reduce == "mean" else 1.0) / squared
    root = _power(editor, before, total, scale, a / squared, f"{name}_rsqrt")
    value = _reshaped(editor, before, root, (1, 1, 1, 1), f"{name}_one")
    values = [value]
    plan = concat_plan(length)
    for index, (step, size) in enumerate(zip(plan.steps, plan.lengths[1:], strict=True)):
        inputs = [values[i] for i in step]
        spread = editor.insert(
            before, "Concat", inputs, {"axis": 2}, shape=(1, 1, size, 1), name=f"{name}_cat{index}"
        )
        values.append(spread)
    row = _reshaped(editor, before, values[-1], (1, 1, 1, length), f"{name}_row") if plan.steps else values[-1]
    return editor.insert(before, "Mul", [flat, row], {}, shape=(1, 1, 1, length), name=f"{name}_mul")


def _reshaped(editor: Editor, before: ir.Node, value: ir.Value, shape: tuple[int, ...], name: str) -> ir.Value:
    if editor.shape(value) == shape:
        return value
    target = editor.constant(f"{name}.shape", np.array(shape, np.int64))
    return editor.insert(before, "Reshape", [value, target], {}, shape=shape, name=name)


def _reduced(editor: Editor, before: ir.Node, value: ir.Value, reduce: Reduce, name: str) -> ir.Value:
    """Caffe's Reduction from axis 3 on, which leaves no axis there: [1, 1, 1]."""
    op_type = "ReduceSum" if reduce == "sum" else "ReduceMean"
    opset = editor.graph.opset_imports.get("", 0)
    if op_type == "ReduceSum" or opset >= 18:
        axes = editor.constant(f"{name}.axes", np.array([3], np.int64))
        return editor.insert(before, op_type, [value, axes], {"keepdims": 0}, shape=(1, 1, 1), name=name)
    return editor.insert(before, op_type, [value], {"axes": [3], "keepdims": 0}, shape=(1, 1, 1), name=name)


def _power(editor: Editor, before: ir.Node, value: ir.Value, scale: float, shift: float, name: str) -> ir.Value:
    """(scale * value + shift)^(-1/2): one Power of Caffe, as ONNX's Mul, Add and Pow without what changes nothing.

    The nodes are marked as that one layer, as the importer of Caffe marks those of a Power, so that it is written as
    one: each layer of the hardware quantises its input anew.
    """
    shape, source, first = editor.shape(value), str(value.name), value
    for op_type, number, neutral in (("Mul", scale, 1.0), ("Add", shift, 0.0)):
        if number != neutral:
            constant = editor.constant(f"{name}.{op_type.lower()}", np.array(number, np.float32))
            value = editor.insert(
                before, op_type, [value, constant], {}, shape=shape, name=f"{name}_{op_type.lower()}"
            )
    exponent = editor.constant(f"{name}.power", np.array(-0.5, np.float32))
    result = editor.insert(before, "Pow", [value, exponent], {}, shape=shape, name=name)
    _mark_as_power(result, first, source, scale, shift)
    return result


def _mark_as_power(result: ir.Value, first: ir.Value, source: str, scale: float, shift: float) -> None:
    """Say of the nodes from `first`, a value named `source`, to `result` that they are one Power layer."""
    last = result.producer()
    node = last
    while node is not None and last is not None:
        node.metadata_props[CAFFE_TYPE], node.metadata_props[CAFFE_LAYER] = "Power", str(last.name)
        before = data_input(node)
        node = None if before is first else before.producer()
    if last is not None:
        numbers = f"power: -0.5 scale: {np.float32(scale)!s} shift: {np.float32(shift)!s}"
        last.metadata_props[CAFFE_PARAM] = f"power_param {{ {numbers} }}"
        last.metadata_props[CAFFE_BOTTOMS] = json.dumps([source], ensure_ascii=False)


def replace_norm(editor: Editor, norm: Norm, *, a: float, factor: float, reduce: Reduce) -> None:
    """Write the normalisation anew, from x to y, with these constants; the old nodes go unless others read them."""
    last = norm.nodes[-1]
    product = build_norm(editor, last, norm.source, a=a, factor=factor, reduce=reduce, name=editor.layer(last))
    for node in norm.nodes:
        if editor.is_hp(node) or node is last:
            editor.copy_tags(node, [product])
    editor.forget_tags(last)
    # Four dimensions as long as there are layers: a vector is flattened last, where a fully connected layer takes it.
    name, shape = editor.layer(last), editor.shape(norm.result)
    flat = len(shape) == 2
    result = _reshaped(editor, last, product, (*shape, 1, 1) if flat else shape, f"{name}_back")
    scale = editor.constant(f"{name}.scale", np.array(1.0 / GAIN, np.float32))
    editor.take_layer_name(product, last, "_out")
    if flat:
        scaled = editor.insert(last, "Mul", [result, scale], {}, shape=(*shape, 1, 1), name=f"{name}_scale")
        editor.become(last, "Flatten", [scaled], {"axis": 1})
    else:
        editor.become(last, "Mul", [result, scale], {})
    for node in reversed(norm.nodes[:-1]):
        if editor.is_unread(node):
            editor.copy_tags(node, [product])
            editor.forget_tags(node)
            editor.remove(node)
