"""Bring nearest-neighbour upsampling by whole factors to one form.

Pattern: Resize of H and W with mode `nearest`, whatever its coordinate and rounding attributes, by scales or sizes.
Algebra: for every output row and column the source that ONNX's formula picks is computed; when it is
  y[oy, ox] = x[oy // sh, ox // sw] with whole factors sh, sw throughout, the op becomes the Resize with
  coordinate_transformation_mode asymmetric, nearest_mode floor and scales [1, 1, sh, sw], which means just that.
Declines for linear and cubic modes, fractional factors, downsampling, and formulas that pick other sources. (The
opset-9 op Upsample becomes Resize when the importer upgrades the model.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.resize import Resize, read_resize
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op, operand, read
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_NORMAL = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    scale_h: int
    scale_w: int


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "Resize") and not _is_normal(editor, node) else None


def _is_normal(editor: Editor, node: ir.Node) -> bool:
    scales, written = editor.array(operand(node, 2)), as_node(node)
    return (
        dict(written.attributes) == _NORMAL
        and len(node.inputs) == 3
        and scales is not None
        and scales.shape == (4,)
        and bool(np.all(scales == np.round(scales)) and np.all(scales[:2] == 1))
    )


def read_nearest(graph: ReadableGraph, node: Node) -> Resize:
    """Read a Resize of [N, C, H, W] that repeats or leaves out elements. Raises Refused for any other."""
    resize = read_resize(graph, node)
    if resize.mode != "nearest":
        raise Refused(f"its mode is {resize.mode}; only nearest repeats elements")
    if not resize.plain:
        raise Refused("it keeps the aspect ratio, or smooths")
    if len(resize.before) != 4:
        raise Refused(f"it has {len(resize.before)} axes instead of 4")
    return resize


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    resize = read(editor, node, read_nearest)
    factors = []
    for axis, (before, after) in enumerate(zip(resize.before, resize.after, strict=True)):
        factor, rest = divmod(after, before)
        if rest or factor < 1:
            raise Refused(f"axis {axis} goes from {before} to {after}, which is not a whole factor")
        if not resize.repeats(axis):
            raise Refused(
                f"with {resize.coordinates} coordinates and {resize.rounding} it does not repeat each element "
                f"{factor} times"
            )
        factors.append(factor)
    if factors[:2] != [1, 1]:
        raise Refused("it resizes other axes than H and W")
    return _Match(node, factors[2], factors[3])


def _rewrite(editor: Editor, match: _Match) -> None:
    node = match.node
    scales = np.array([1, 1, match.scale_h, match.scale_w], np.float32)
    editor.become(
        node,
        "Resize",
        [data_input(node), None, editor.constant(f"{editor.layer(node)}.scales", scales)],
        _NORMAL,
    )


RULE = Rule("normalize_resize", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
