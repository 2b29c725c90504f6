"""Make DepthToSpace and SpaceToDepth of Reshape and Transpose.

Pattern: DepthToSpace (DCR or CRD) or SpaceToDepth with blocks of b x b.
Algebra: with c channels on the deep side, DCR is [N, b, b, c, H, W] turned to [N, c, H, b, W, b]; CRD the same from
  [N, c, b, b, H, W]; SpaceToDepth [N, C, H/b, b, W/b, b] turned to [N, b, b, C, H/b, W/b].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "DepthToSpace", "SpaceToDepth") else None


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    return nodes[0]


def _rewrite(editor: Editor, node: ir.Node) -> None:
    name, value, read = editor.layer(node), data_input(node), as_node(node)
    block = read.integer("blocksize", 1)
    images, channels, height, width = editor.shape(value)
    if is_op(node, "SpaceToDepth"):
        parted = [images, channels, height // block, block, width // block, block]
        order = [0, 3, 5, 1, 2, 4]
    elif read.text("mode", "DCR") == "DCR":
        parted, order = [images, block, block, channels // block**2, height, width], [0, 3, 4, 1, 5, 2]
    else:
        parted, order = [images, channels // block**2, block, block, height, width], [0, 1, 4, 2, 5, 3]
    part = reshaped(editor, node, value, tuple(parted), f"{name}_blocks")
    turned = editor.insert(
        node, "Transpose", [part], {"perm": order}, shape=[parted[i] for i in order], name=f"{name}_turned"
    )
    editor.copy_tags(node, [part, turned])
    shape = editor.constant(f"{name}.shape", np.array(editor.shape(node.outputs[0]), np.int64))
    editor.become(node, "Reshape", [turned, shape], {})


RULE = Rule("depth_to_space_to_transpose", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
