"""Concat."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.graph.read.operands import axis_from_front
from nnkit.graph.view import Node, ReadableGraph


@dataclass(frozen=True)
class Concat:
    """axis: counted from the front. sizes: of each input along it. starts: where each begins in the output."""

    inputs: tuple[str, ...]
    axis: int
    sizes: tuple[int, ...]
    starts: tuple[int, ...]


def read_concat(graph: ReadableGraph, node: Node) -> Concat:
    """Read a Concat. Raises Refused where a shape is not known."""
    axis = axis_from_front(node.integer("axis", 1), len(graph.shape(node.inputs[0])))
    sizes = tuple(graph.shape(name)[axis] for name in node.inputs)
    return Concat(node.inputs, axis, sizes, tuple(sum(sizes[:index]) for index in range(len(sizes))))
