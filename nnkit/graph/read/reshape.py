"""Reshape, Flatten, Squeeze, Unsqueeze: the same numbers in the same order under another shape."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.graph.view import Node, ReadableGraph, Shape

RESHAPE_OPS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class Reshape:
    """Shapes with the batch axis."""

    data: str
    before: Shape
    after: Shape


def read_reshape(graph: ReadableGraph, node: Node) -> Reshape:
    """Read one of `RESHAPE_OPS`. Raises Refused where a shape is not known."""
    return Reshape(node.inputs[0], graph.shape(node.inputs[0]), graph.shape(node.output))
