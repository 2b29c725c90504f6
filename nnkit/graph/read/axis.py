"""Ops along one axis: Softmax, LogSoftmax, LpNormalization."""

from __future__ import annotations

from nnkit.graph.read.operands import axis_from_front
from nnkit.graph.view import Node, ReadableGraph


def read_axis(graph: ReadableGraph, node: Node) -> int:
    """The axis of a Softmax, LogSoftmax or LpNormalization (default: the last), counted from the front."""
    return axis_from_front(node.integer("axis", -1), len(graph.shape(node.inputs[0])))
