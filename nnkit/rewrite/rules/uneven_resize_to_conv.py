"""Make a Resize that does not enlarge by whole factors a convolution along each axis.

Pattern: Resize of H and W with mode `nearest` that does not repeat every element equally often, or with mode `linear`
  by a factor that is not whole, by scales that are not the ratio of the sizes, or with other coordinates than
  half_pixel, pytorch_half_pixel and align_corners.
Algebra: that of `resize_to_layers`, y = M_h x M_w^T.
Declines for what `resize_to_layers` declines. (Others stay; some targets have a layer for them.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.resize import EVEN_COORDINATES, Resize, read_resize
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
    return (node,) if resize is not None and resize.plain and _is_uneven(resize) else None


def _is_uneven(resize: Resize) -> bool:
    if resize.before == resize.after:
        return False
    factors = resize.whole_factors
    if resize.mode == "nearest":
        return factors is None or not (resize.repeats(2) and resize.repeats(3))
    by_ratio = factors is not None and np.allclose(resize.scales, factors, rtol=1e-6)
    return resize.mode == "linear" and not (by_ratio and resize.coordinates in EVEN_COORDINATES)


RULE = Rule("uneven_resize_to_conv", True, "blocks", __doc__ or "", _pattern, check, rewrite)
