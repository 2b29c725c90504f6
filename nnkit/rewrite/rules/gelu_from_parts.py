"""Put Gelu together that an exporter wrote as its parts.

Pattern: a product of numbers, x and 1 + erf(x / sqrt(2)), or x and 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)), in any
order of its factors, with Mul, Div by a number and Pow; as x (1 + 0.044715 x^2) within the tanh, too.
Algebra: gelu(x) = x (1 + erf(x / sqrt(2))) / 2, with `approximate: tanh` by tanh; c x (1 + erf(...)) = 2 c gelu(x).
Declines below opset 20, which has no Gelu, where a part is read elsewhere, and where a constant widens the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op, scalar_of
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_FIRST_OPSET = 20
_CUBE = 0.044715
_PRECISION = 1e-6  # relative, of the constants


@dataclass(frozen=True)
class _Product:
    """number times factors. nodes: what computes it, from the first on."""

    number: float
    factors: tuple[ir.Value, ...]
    nodes: Nodes = ()


@dataclass(frozen=True)
class _Match:
    """nodes: all of them, the product of all factors last. gain: of the Gelu."""

    nodes: Nodes
    source: ir.Value
    approximate: str
    gain: float


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    parts = _found(editor, node)
    return None if parts is None else parts.nodes


def _check(editor: Editor, nodes: Nodes) -> _Match:
    node = nodes[-1]
    parts = _found(editor, node)
    if parts is None:
        raise Refused("it is no Gelu any more")
    if editor.graph.opset_imports.get("", 0) < _FIRST_OPSET:
        raise Refused(f"Gelu is an operator from opset {_FIRST_OPSET} on")
    if editor.shape(parts.source) != editor.shape(node.outputs[0]):
        raise Refused("its constants widen the result by broadcasting")
    for part in nodes[:-1]:
        outside = [user for user in editor.users(part.outputs[0]) if user not in nodes]
        if outside or part.outputs[0].is_graph_output():
            whose = f"by '{editor.layer(outside[0])}'" if outside else "as an output of the network"
            raise Refused(f"'{part.outputs[0].name}' is read elsewhere, {whose}")
    return parts


def _rewrite(editor: Editor, match: _Match) -> None:
    *parts, node = match.nodes
    attributes = {"approximate": match.approximate}
    result = node.outputs[0]
    if _is(match.gain, 1.0):
        editor.become(node, "Gelu", [match.source], attributes)
    else:
        name = editor.layer(node)
        whole = editor.insert(
            node, "Gelu", [match.source], attributes, shape=editor.shape(match.source), name=f"{name}_gelu"
        )
        editor.copy_tags(node, [whole])
        gain = editor.constant(f"{name}.gain", np.array(match.gain, np.float32))
        editor.become(node, "Mul", [whole, gain], {})
    for part in parts:
        editor.move_tags(part, result)
    editor.remove(*parts)


def _found(editor: Editor, node: ir.Node) -> _Match | None:
    """The Gelu of which `node` is the last product, numbers included."""
    if not is_op(node, "Mul", "Div") or _is_scaled_further(editor, node):
        return None
    product = _product(editor, node.outputs[0], last=True)
    if len(product.factors) != 2:
        return None
    for source, gate in (product.factors, product.factors[::-1]):
        total = editor.producer(gate, "Add")
        function = None if total is None else _beside(editor, total, 1.0)
        bent = editor.producer(function, "Erf", "Tanh")
        if total is None or bent is None:
            continue
        inner = _erf_of(editor, bent, source) if is_op(bent, "Erf") else _tanh_of(editor, bent, source)
        if inner is not None:
            nodes = tuple(dict.fromkeys((*inner, bent, total, *product.nodes)))
            return _Match(nodes, source, "none" if is_op(bent, "Erf") else "tanh", 2.0 * product.number)
    return None


def _is_scaled_further(editor: Editor, node: ir.Node) -> bool:
    """Whether a product with a number alone reads it: then that one is the last."""
    reader = editor.only_user(node.outputs[0])
    return reader is not None and is_op(reader, "Mul", "Div") and scalar_of(editor, reader.inputs[1]) is not None


def _erf_of(editor: Editor, bent: ir.Node, source: ir.Value) -> Nodes | None:
    """What computes x / sqrt(2)."""
    inner = _product_of(editor, bent.inputs[0])
    fits = inner is not None and inner.factors == (source,) and _is(inner.number, math.sqrt(0.5))
    return inner.nodes if fits and inner is not None else None


def _tanh_of(editor: Editor, bent: ir.Node, source: ir.Value) -> Nodes | None:
    """What computes sqrt(2 / pi) (x + 0.044715 x^3), or that with x taken out."""
    inner = _product_of(editor, bent.inputs[0])
    if inner is None or not _is(inner.number, math.sqrt(2.0 / math.pi)):
        return None
    rest = [value for value in inner.factors if value is not source]
    total = editor.producer(rest[0], "Add") if len(rest) == 1 else None
    if total is None:
        return None
    if len(inner.factors) == 1:
        others = [value for value in total.inputs if value is not source]
        power, cube = 3, others[0] if len(others) == 1 else None
    else:
        power, cube = 2, _beside(editor, total, 1.0)
    small = _product_of(editor, cube)
    if small is None or small.factors != (source,) * power or not _is(small.number, _CUBE):
        return None
    return (*small.nodes, total, *inner.nodes)


def _beside(editor: Editor, total: ir.Node, number: float) -> ir.Value | None:
    """What a number is added to."""
    for value, constant in (total.inputs, total.inputs[::-1]):
        scalar = scalar_of(editor, constant)
        if scalar is not None and _is(scalar, number):
            return value
    return None


def _product_of(editor: Editor, value: ir.Value | None) -> _Product | None:
    return None if value is None else _product(editor, value, last=False)


def _product(editor: Editor, value: ir.Value, *, last: bool) -> _Product:
    """`value` as a product of numbers and values. What others read, too, is a factor, unless it is the `last` one."""
    number = scalar_of(editor, value)
    if number is not None:
        return _Product(number, ())
    alone = _Product(1.0, (value,))
    node = editor.producer(value, "Mul", "Div", "Pow")
    if node is None or not (last or editor.only_user(value) is not None):
        return alone
    left, right = node.inputs
    if left is None or right is None:
        return alone
    if is_op(node, "Mul"):
        return _joined([_product(editor, each, last=False) for each in (left, right)], node)
    number = scalar_of(editor, right)
    if is_op(node, "Pow"):
        return _Product(1.0, (left,) * int(number), (node,)) if number in (2.0, 3.0) else alone
    return _joined([_product(editor, left, last=False), _Product(1.0 / number, ())], node) if number else alone


def _joined(products: Sequence[_Product], node: ir.Node) -> _Product:
    return _Product(
        math.prod(each.number for each in products),
        tuple(value for each in products for value in each.factors),
        (*(before for each in products for before in each.nodes), node),
    )


def _is(value: float, number: float) -> bool:
    return math.isclose(value, number, rel_tol=_PRECISION)


RULE = Rule("gelu_from_parts", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
