"""LRN: normalisation by the squares of neighbouring channels."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph


@dataclass(frozen=True)
class Lrn:
    """x / (bias + alpha / size * sum of squares)^beta, the sum over `size` channels around each."""

    data: str
    size: int
    alpha: float
    beta: float
    bias: float


def read_lrn(graph: ReadableGraph, node: Node) -> Lrn:
    """Read an LRN. Raises Refused where it does not say over how many channels."""
    size = node.integer("size", 0)
    if size < 1:
        raise Refused(f"its size is {size}")
    numbers = (node.number(name, default) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    return Lrn(node.inputs[0], size, *numbers)
