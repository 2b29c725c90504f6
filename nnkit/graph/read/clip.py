"""Clip and Relu as bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnkit.graph.read.operands import optional_number
from nnkit.graph.view import Node, ReadableGraph

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Clip:
    """min(max(x, low), high); a bound that is left out, or is the largest float32, is infinite."""

    data: str
    low: float
    high: float


def read_clip(graph: ReadableGraph, node: Node) -> Clip:
    """Read a Clip or a Relu. Raises Refused where a bound is computed."""
    if node.op_type == "Relu":
        return Clip(node.inputs[0], 0.0, np.inf)
    return Clip(
        node.inputs[0],
        _bound(graph, node, 1, "min", -np.inf),
        _bound(graph, node, 2, "max", np.inf),
    )


def _bound(graph: ReadableGraph, node: Node, index: int, name: str, absent: float) -> float:
    """An input of newer operator sets, an attribute of older ones."""
    value = optional_number(graph, node, index, f"{name} is")
    if value is None:
        value = node.number(name, absent)
    return float(np.copysign(np.inf, value)) if abs(value) >= _LARGEST else value
