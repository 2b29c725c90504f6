"""Fold the normalisation of a network input into the first layers.

Pattern: a network input -> a chain of Sub, Add, Mul, Div by constants and BatchNormalization, each read by the next
one alone -> all readers of the last one: Conv, Gemm or MatMul. Constants are scalars or one number per channel.
Algebra, for the whole chain (x - m) / s:
  conv(W, (x - m) / s) + b = conv(W / s, x) + (b - sum_{c,kh,kw} W m / s)
Exact where the convolution reads no padding, or m = 0. With padding, a padded zero of the normalised input is m in
raw values (black borders would be wrong). When m is one value for all channels, the rule puts an explicit Pad of
the raw input with the value m in front of the convolution, which then pads nothing itself; the Pad is marked as a
part of the convolution, so that a target can pad with m and copy nothing. When m differs between the channels, one
padded value cannot express it: the rule declines, and the normalisation remains as an op (batch_norm_to_conv makes
it a 1x1 depthwise convolution).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.rewrite.affine import affine_input
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.folding import FoldBefore, check_before, rewrite_fold
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    source = affine_input(editor, node)
    if source is None or not source.is_graph_input():
        return None
    chain = _chain_from(editor, node)
    return (*chain, *editor.users(chain[-1].outputs[0]))


def _chain_from(editor: Editor, first: ir.Node) -> Nodes:
    """`first` and the affine maps that follow it, each the only reader of the one before."""
    chain = [first]
    while True:
        following = editor.only_user(chain[-1].outputs[0])
        if following is None or affine_input(editor, following) is not chain[-1].outputs[0]:
            return tuple(chain)
        chain.append(following)


def _check(editor: Editor, nodes: Nodes) -> FoldBefore:
    chain = _chain_from(editor, nodes[0])
    return check_before(editor, chain, nodes[len(chain) :])


RULE: Rule[FoldBefore] = Rule(
    "fold_input_normalization", True, "blocks", __doc__ or "", _pattern, _check, rewrite_fold
)
