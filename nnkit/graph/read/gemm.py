"""Gemm: alpha * A x B + beta * C, of any operands; `fully_connected` reads those with constant weights."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph


@dataclass(frozen=True)
class Gemm:
    """alpha * A x B + beta * C. left [M, K] or, transposed, [K, M]; right [K, N] or [N, K]; added: "" without."""

    left: str
    right: str
    added: str
    left_transposed: bool
    right_transposed: bool
    alpha: float
    beta: float
    rows: int
    inner: int
    columns: int


def read_gemm(graph: ReadableGraph, node: Node) -> Gemm:
    """Read a Gemm. Raises Refused where a shape is not known, or an operand is no matrix."""
    left_transposed, right_transposed = bool(node.integer("transA", 0)), bool(node.integer("transB", 0))
    left, right = graph.shape(node.inputs[0]), graph.shape(node.inputs[1])
    for shape in (left, right):
        if len(shape) != 2:
            raise Refused(f"it multiplies a tensor of {len(shape)} dimensions, a matrix is needed")
    return Gemm(
        left=node.inputs[0],
        right=node.inputs[1],
        added=node.input(2),
        left_transposed=left_transposed,
        right_transposed=right_transposed,
        alpha=node.number("alpha", 1.0),
        beta=node.number("beta", 1.0),
        rows=left[1] if left_transposed else left[0],
        inner=left[0] if left_transposed else left[1],
        columns=right[0] if right_transposed else right[1],
    )
