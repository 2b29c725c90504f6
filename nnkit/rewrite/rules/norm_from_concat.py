"""Rebuild the normalisation of a feature from Reshape, Power, Reduction, Concat and Eltwise.

Pattern: x divided by, or multiplied with the reciprocal of, a square root of (sum or mean of x^2) + a, in any
spelling of ONNX (ReduceL2, ReduceSumSquare, Mul or Pow, Sqrt or Pow, Div or Reciprocal); LpNormalization with p = 2;
Caffe's Normalize. The feature is normalised as a whole: [1, C], or [1, C, 1, 1].
Algebra: y = c x / sqrt(sum(x^2) + a) = (x * spread((g total + h)^(-1/2))) / G with total = sum(x^2), g = 1/(c G)^2
and h = a/(c G)^2, or total = mean(x^2) = sum(x^2)/n and g = n/(c G)^2. G = 1024 keeps the small reciprocal of a
length well above steps of 2^-12, in which an NPU may store results; fold_scale takes 1/G into a layer behind. The
division becomes a power of -1/2 and a product. Nothing is broadcast: `spread` repeats one number n times with
Concats of at most 32 inputs, 32 at a time for powers of two, by the fewest factors up to 32 for other products, and
for the rest (a prime number) by blocks and a remainder.
Options: `reduce` (sum, mean) chooses the total; a mean keeps the squares of long features within fixed point. `a`
replaces the constant that stands beside sum(x^2), and makes the rule approximate: with S the smaller of the two
sum(x^2) + a, y moves by at most |a' - a| / (2 S) of its length; only then a floor max(||x||, f), which is not among
Caffe's layers, is taken, for a = f^2. Without `a` and with a = 0 the zero feature has no direction: 0/0, as before.
Declines where each position of a feature map has a length of its own, for more than 4096 elements, and for
exponents, floors and scales that are not those of a normalisation.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.normalization import MAX_LENGTH, Norm, Reduce, norm_nodes, read_norm, replace_norm
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def make(reduce: Reduce = "sum", a: float | None = None) -> Rule[Norm]:
    """The rule with its options: `reduce` the total to take, `a` the constant to use instead of the one found."""

    def check(editor: Editor, nodes: Nodes) -> Norm:
        return _check(editor, nodes, a)

    def rewrite(editor: Editor, norm: Norm) -> None:
        replace_norm(editor, norm, a=norm.a if a is None else a, factor=norm.factor, reduce=reduce)

    return Rule("norm_from_concat", a is None, "blocks", __doc__ or "", _pattern, check, rewrite)


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    nodes = norm_nodes(editor, node)
    return None if nodes is None or _is_rebuilt(editor, nodes) else nodes


def _is_rebuilt(editor: Editor, nodes: Nodes) -> bool:
    """Whether this is the form that the rule writes, of one element: there is no Concat to tell it by."""
    return math.prod(editor.shape(nodes[-1].outputs[0])) == 1


def _check(editor: Editor, nodes: Nodes, a: float | None) -> Norm:
    norm = read_norm(editor, nodes)
    length = math.prod(editor.shape(norm.source))
    if length > MAX_LENGTH:
        raise Refused(f"its feature has {length} elements, and a dimension holds {MAX_LENGTH} at most")
    if norm.floor and a is None:
        raise Refused(
            f"it keeps the length from falling below {norm.floor:g}, for which Caffe has no layer; "
            f"with `a: {norm.floor**2:g}` that is added to the squared length instead"
        )
    return norm


RULE = make()
