"""Warp the image first and normalise it afterwards, so that the warp reads the network's input.

Pattern: an affine map with constants (BatchNormalization, or Mul, Div, Add, Sub with a scalar or one number per
channel) -> WarpPerspective; the map may have other readers.
Algebra: a warp is, in every output pixel, a mean of input pixels and of the border value b with weights that add up
to 1. So warp(s x + t; b) = s warp(x; (b - t) / s) + t. The map's copy behind the warp folds into the next layer, and
what remains of it before the warp folds into the localisation network: the network can then be split at the warp.
Declines when the border is constant and (b - t) / s is not one number for all channels, and when a factor is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.affine import Affine, affine_input, read_affine
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class _Match:
    affine_node: ir.Node
    warp: ir.Node
    source: ir.Value
    affine: Affine
    border_value: float


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if node.op_type != "WarpPerspective" or node.domain != "ai.nnkit":
        return None
    before = data_input(node).producer()
    return (before, node) if before is not None and affine_input(editor, before) is not None else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    node, warp = nodes
    source = affine_input(editor, node)
    affine = read_affine(editor, node)
    if source is None or editor.array(source) is not None:
        raise Refused("its input is constant")
    if not np.all(affine.scale):
        raise Refused("it multiplies a channel with zero")
    borders = (as_node(warp).number("border_value", 0.0) - affine.shift) / affine.scale
    if _has_constant_border(warp) and not np.allclose(borders, borders[0], rtol=2.0**-22, atol=0.0):
        raise Refused(
            "the border stands for a different input value in each channel; a warp has one border value only"
        )
    return _Match(node, warp, source, affine, float(borders[0]))


def _has_constant_border(warp: ir.Node) -> bool:
    return as_node(warp).text("border", "constant") == "constant"


def _rewrite(editor: Editor, match: _Match) -> None:
    import onnx_ir as ir

    warp, node = match.warp, match.affine_node
    name, shape = editor.layer(warp), editor.shape(warp.outputs[0])
    attributes = dict(warp.attributes)
    if _has_constant_border(warp):
        attributes["border_value"] = ir.AttrFloat32("border_value", match.border_value)
    warped = editor.insert(
        warp, "WarpPerspective", [match.source, warp.inputs[1]], attributes, shape=shape, name=f"{name}_first"
    )
    moved = warped.producer()
    if moved is not None:
        moved.domain = "ai.nnkit"
        editor.move_tags(warp, warped)
        editor.take_layer_name(warped, warp, "_normalised")
    channels = (1, -1, *[1] * (len(shape) - 2))
    scaled = editor.insert(
        warp,
        "Mul",
        [warped, editor.constant(f"{name}.scale", match.affine.scale.astype(np.float32).reshape(channels))],
        {},
        shape=shape,
        name=f"{name}_scale",
    )
    shift = editor.constant(f"{name}.shift", match.affine.shift.astype(np.float32).reshape(channels))
    editor.become(warp, "Add", [scaled, shift], {})
    if editor.is_unread(node):
        editor.move_tags(node, warp.outputs[0])
        editor.remove(node)


RULE = Rule("warp_before_affine", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
