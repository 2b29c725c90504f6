"""Write HardSwish with HardSigmoid.

Pattern: HardSwish.
Algebra: x max(0, min(1, x / 6 + 1 / 2)) = x HardSigmoid(x) with alpha 1 / 6 and beta 1 / 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "HardSwish") else None


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    return nodes[0]


def _rewrite(editor: Editor, node: ir.Node) -> None:
    value = data_input(node)
    attributes = {"alpha": 1.0 / 6.0, "beta": 0.5}
    gate = editor.insert(
        node, "HardSigmoid", [value], attributes, shape=editor.shape(value), name=f"{editor.layer(node)}_gate"
    )
    editor.copy_tags(node, [gate])
    editor.become(node, "Mul", [value, gate], {})


RULE = Rule("hard_swish_to_product", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
