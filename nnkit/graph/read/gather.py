"""Gather by constant indices: elements of one axis, in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.operands import axis_from_front, required_constant
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph


@dataclass(frozen=True, eq=False)
class Gather:
    """picked: [elements] int64, from 0 to the length of the axis."""

    data: str
    axis: int
    picked: NDArray[np.int64]


def read_gather(graph: ReadableGraph, node: Node) -> Gather:
    """Read a Gather. Raises Refused where its indices are computed, none, or beyond the axis."""
    shape = graph.shape(node.input(0))
    axis = axis_from_front(node.integer("axis", 0), len(shape))
    indices = required_constant(graph, node, 1, "indices are").astype(np.int64).reshape(-1)
    picked = np.where(indices < 0, indices + shape[axis], indices)
    if picked.size == 0 or picked.min() < 0 or picked.max() >= shape[axis]:
        raise Refused(f"its indices go beyond the {shape[axis]} elements of axis {axis}")
    return Gather(node.input(0), axis, picked)
