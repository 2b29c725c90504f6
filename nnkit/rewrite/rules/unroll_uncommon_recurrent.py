"""Write a recurrent layer as its steps where no chip computes it whole.

Pattern: GRU or LSTM of ONNX that runs backwards alone, or an LSTM whose last cell is read.
Algebra: that of `unroll_recurrent`.
Declines for others, which some targets compute as one layer, and for what `unroll_recurrent` declines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op
from nnkit.rewrite.rule import Nodes, Rule
from nnkit.rewrite.rules.unroll_recurrent import check, unroll

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "GRU", "LSTM"):
        return None
    direction = node.attributes.get("direction")
    backwards = direction is not None and direction.as_string() == "reverse"
    cells = node.outputs[2:]
    return (node,) if backwards or any(cell.uses() or cell.is_graph_output() for cell in cells) else None


RULE = Rule("unroll_uncommon_recurrent", True, "carries", __doc__ or "", _pattern, check, unroll)
