"""MatMul of any operands; `fully_connected` reads those with constant weights."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.graph.view import Node, ReadableGraph, Shape


@dataclass(frozen=True)
class MatMul:
    """A x B: [..., rows, inner] x [..., inner, columns]; a vector counts as one row, or one column.

    left_outer, right_outer: the dimensions before the matrices, which are broadcast.
    """

    left: str
    right: str
    rows: int
    inner: int
    columns: int
    left_outer: Shape
    right_outer: Shape


def read_matmul(graph: ReadableGraph, node: Node) -> MatMul:
    """Read a MatMul. Raises Refused where a shape is not known."""
    left, right = graph.shape(node.inputs[0]), graph.shape(node.inputs[1])
    left = (1, *left) if len(left) == 1 else left
    right = (*right, 1) if len(right) == 1 else right
    return MatMul(
        left=node.inputs[0],
        right=node.inputs[1],
        rows=left[-2],
        inner=left[-1],
        columns=right[-1],
        left_outer=left[:-2],
        right_outer=right[:-2],
    )
