"""A network that is quantised already, where a target has integers of its own."""

from __future__ import annotations

from nnkit.graph.refusal import Refusal, refusal_error
from nnkit.graph.view import GraphView

_REMEDY = "give the float network, or set `dequantize: true` below `model`, which has it quantised anew"


def refuse_quantised(view: GraphView, what: str, why: str, keeps: str = "") -> None:
    """Raises ModelError for a network that is quantised already, instead of one for each of its roundings.

    what: in words, that it cannot run on the target. why: what that has instead. keeps: options that keep integers.
    """
    for node in view.nodes:
        if node.is_op("QuantizeLinear", "DequantizeLinear"):
            reason = f"the network is quantised already, and {why}"
            remedy = f"{keeps}; or {_REMEDY}" if keeps else _REMEDY
            raise refusal_error([Refusal(node.name, node.op_type, reason)], what, remedy)
