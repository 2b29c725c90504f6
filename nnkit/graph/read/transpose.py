"""Transpose."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.graph.view import Node, ReadableGraph


@dataclass(frozen=True)
class Transpose:
    """order: for each axis of the result, the axis of the data."""

    data: str
    order: tuple[int, ...]


def read_transpose(graph: ReadableGraph, node: Node) -> Transpose:
    """Read a Transpose. Raises Refused where a shape is not known."""
    rank = len(graph.shape(node.inputs[0]))
    return Transpose(node.inputs[0], node.ints("perm", tuple(reversed(range(rank)))))
