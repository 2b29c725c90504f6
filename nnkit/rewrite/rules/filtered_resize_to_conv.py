"""Make a Resize whose filter is wider than two elements a convolution along each axis.

Pattern: Resize of H and W with mode `cubic`, or an antialiased one.
Algebra: that of `resize_to_layers`, y = M_h x M_w^T.
Declines for what `resize_to_layers` declines. (Other modes stay; some targets have a layer for them.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.read.resize import read_resize
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read_or_none
from nnkit.rewrite.rule import Nodes, Rule
from nnkit.rewrite.rules.resize_to_layers import check, rewrite

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Resize") or len(editor.shape(data_input(node))) != 4:
        return None
    resize = read_or_none(editor, node, read_resize)
    return (node,) if resize is not None and (resize.mode == "cubic" or resize.antialias) else None


RULE = Rule("filtered_resize_to_conv", True, "blocks", __doc__ or "", _pattern, check, rewrite)
