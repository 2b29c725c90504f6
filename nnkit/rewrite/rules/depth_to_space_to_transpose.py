"""Make DepthToSpace and SpaceToDepth of Reshape and Transpose.

Pattern: DepthToSpace (DCR or CRD) or SpaceToDepth with blocks of b x b.
Algebra: with c channels on the deep side, DCR is [N, b, b, c, H, W] turned to [N, c, H, b, W, b]; CRD the same from
  [N, c, b, b, H, W]; SpaceToDepth [N, C, H/b, b, W/b, b] turned to [N, b, b, C, H/b, W/b].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.depth_to_space import Blocks, read_depth_to_space
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "DepthToSpace", "SpaceToDepth") else None


def _check(editor: Editor, nodes: Nodes) -> tuple[ir.Node, Blocks]:
    return nodes[0], read(editor, nodes[0], read_depth_to_space)


def _rewrite(editor: Editor, match: tuple[ir.Node, Blocks]) -> None:
    node, blocks = match
    name = editor.layer(node)
    part = reshaped(editor, node, data_input(node), blocks.parted, f"{name}_blocks")
    shape = tuple(blocks.parted[axis] for axis in blocks.order)
    turned = editor.insert(node, "Transpose", [part], {"perm": blocks.order}, shape=shape, name=f"{name}_turned")
    editor.copy_tags(node, [part, turned])
    joined = editor.constant(f"{name}.shape", np.array(editor.shape(node.outputs[0]), np.int64))
    editor.become(node, "Reshape", [turned, joined], {})


RULE = Rule("depth_to_space_to_transpose", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
