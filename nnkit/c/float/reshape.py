"""Operators whose output is their input, in another shape or under another name: no code."""

from __future__ import annotations

from nnkit.c.float.calls import Code, View
from nnkit.c.float.operands import check_float32
from nnkit.graph.read.reshape import RESHAPE_OPS
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node


def view(graph: GraphView, node: Node) -> Code:
    if len(node.results) > 1:
        raise Refused("it gives out a mask")
    check_float32(graph, node.inputs[0])
    return View(node.inputs[0])


LOWERINGS = dict.fromkeys((*RESHAPE_OPS, "Identity", "Dropout"), view)
