"""Write an Einsum as a product of matrices, as a product element by element, or as a Transpose.

Pattern: Einsum of one or two operands, each letter once an operand, no letter of one operand alone that is summed.
Algebra: letters of both operands that are summed are the inner axis, letters of both that stay count the matrices,
  the others are rows and columns: [..., rows, inner] times [..., inner, columns], the axes brought there and back by
  Transpose and Reshape. Where nothing is summed the operands are multiplied element by element.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, is_op
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_ELLIPSIS = "..."


@dataclass(frozen=True, eq=False)
class _Operand:
    """A value and the letter of each of its axes."""

    value: ir.Value
    letters: str


@dataclass(frozen=True, eq=False)
class _Match:
    """lengths: of the axis of each letter; result: letters of the output's axes."""

    node: ir.Node
    operands: tuple[_Operand, ...]
    result: str
    lengths: dict[str, int]

    def shape(self, letters: str) -> tuple[int, ...]:
        return tuple(self.lengths[letter] for letter in letters)


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "Einsum") else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    equation = as_node(node).text("equation", "").replace(" ", "")
    values = [value for value in node.inputs if value is not None]
    if len(values) > 2:
        raise Refused(f"it has {len(values)} operands ({equation})")
    terms, result = _without_ellipsis(*_terms(equation), [len(editor.shape(value)) for value in values], equation)
    operands = tuple(_Operand(value, term) for value, term in zip(values, terms, strict=True))
    lengths: dict[str, int] = {}
    for operand in operands:
        for letter, length in zip(operand.letters, editor.shape(operand.value), strict=True):
            if lengths.setdefault(letter, length) != length:
                raise Refused(f"an axis of length 1 is repeated ({equation})")
    for letters in (*terms, result):
        if len(set(letters)) != len(letters):
            raise Refused(f"it reads or writes a diagonal ({equation})")
    alone = [letter for letter in lengths if letter not in result and sum(letter in term for term in terms) == 1]
    if alone:
        raise Refused(f"it sums '{alone[0]}' of one operand alone ({equation})")
    return _Match(node, operands, result, lengths)


def _terms(equation: str) -> tuple[list[str], str]:
    """The letters of each operand and of the result: those that stand once, in order, where no arrow says them."""
    written, arrow, result = equation.partition("->")
    if not arrow:
        letters = written.replace(_ELLIPSIS, "").replace(",", "")
        once = sorted(letter for letter in letters if letters.count(letter) == 1)
        result = (_ELLIPSIS if _ELLIPSIS in written else "") + "".join(once)
    return written.split(","), result


def _without_ellipsis(terms: list[str], result: str, ranks: list[int], equation: str) -> tuple[list[str], str]:
    """The same with a digit for each axis that an ellipsis stands for. ranks: of the operands."""
    hidden = {
        rank - len(term.replace(_ELLIPSIS, "")) for term, rank in zip(terms, ranks, strict=True) if _ELLIPSIS in term
    }
    if len(hidden) > 1:
        raise Refused(f"its '...' stands for different numbers of axes ({equation})")
    digits = "".join(str(index) for index in range(max(hidden, default=0)))
    return [term.replace(_ELLIPSIS, digits) for term in terms], result.replace(_ELLIPSIS, digits)


def _rewrite(editor: Editor, match: _Match) -> None:
    if len(match.operands) == 1:
        (operand,) = match.operands
        order = [operand.letters.index(letter) for letter in match.result]
        editor.become(match.node, "Transpose", [operand.value], {"perm": order})
    elif any(letter not in match.result for letter in match.lengths):
        _multiply_matrices(editor, match)
    else:
        editor.become(match.node, "Mul", [_spread(editor, match, operand) for operand in match.operands], {})


def _multiply_matrices(editor: Editor, match: _Match) -> None:
    node, name = match.node, editor.layer(match.node)
    left, right = match.operands
    if editor.array(left.value) is not None:
        left, right = right, left  # constants are the second operand of a layer
    matrices = "".join(letter for letter in match.result if letter in left.letters and letter in right.letters)
    rows = "".join(letter for letter in match.result if letter in left.letters and letter not in matrices)
    columns = "".join(letter for letter in match.result if letter in right.letters and letter not in matrices)
    inner = "".join(letter for letter in left.letters if letter not in match.result)
    ahead = match.shape(matrices) or (1,)
    height, depth, width = (prod(match.shape(letters)) for letters in (rows, inner, columns))
    first = _brought(editor, match, left, matrices + rows + inner, (*ahead, height, depth), "rows")
    shared = editor.array(right.value) is not None and not matrices
    second_shape = (depth, width) if shared else (*ahead, depth, width)
    second = _brought(editor, match, right, matrices + inner + columns, second_shape, "columns")
    product = editor.insert(
        node, "MatMul", [first, second], {}, shape=(*ahead, height, width), name=f"{name}_product"
    )
    editor.move_tags(node, product)
    editor.take_layer_name(product, node, "_output")
    given = matrices + rows + columns
    if given != match.result:
        product = reshaped(editor, node, product, match.shape(given), f"{name}_axes")
        editor.become(node, "Transpose", [product], {"perm": [given.index(letter) for letter in match.result]})
    else:
        shape = editor.constant(f"{name}.shape", np.array(match.shape(given), np.int64))
        editor.become(node, "Reshape", [product, shape], {})


def _brought(
    editor: Editor, match: _Match, operand: _Operand, letters: str, shape: tuple[int, ...], label: str
) -> ir.Value:
    """The operand with its axes in the order of `letters`, as matrices of `shape`."""
    name = f"{editor.layer(match.node)}_{label}"
    order = [operand.letters.index(letter) for letter in letters]
    array = editor.array(operand.value)
    if array is not None:
        return editor.constant(name, np.ascontiguousarray(array.transpose(order).reshape(shape)))
    value = operand.value
    if order != sorted(order):
        turned = match.shape(letters)
        value = editor.insert(match.node, "Transpose", [value], {"perm": order}, shape=turned, name=f"{name}_turned")
    return value if editor.shape(value) == shape else reshaped(editor, match.node, value, shape, name)


def _spread(editor: Editor, match: _Match, operand: _Operand) -> ir.Value:
    """The operand with its axes in the result's order, of length 1 where it has none."""
    letters = "".join(letter for letter in match.result if letter in operand.letters)
    shape = tuple(match.lengths[letter] if letter in operand.letters else 1 for letter in match.result)
    label = "first" if operand is match.operands[0] else "second"
    return _brought(editor, match, operand, letters, shape, label)


RULE = Rule("einsum_to_matmul", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
