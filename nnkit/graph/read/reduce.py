"""ReduceMean, ReduceSum and the other reductions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from nnkit.graph.read.operands import axis_from_front, ints_of
from nnkit.graph.view import Node, ReadableGraph

Reduction: TypeAlias = Literal["sum", "mean", "max", "min", "l1", "l2", "sum_square"]

REDUCE_OPS: Mapping[str, Reduction] = MappingProxyType(
    {
        "ReduceSum": "sum",
        "ReduceMean": "mean",
        "ReduceMax": "max",
        "ReduceMin": "min",
        "ReduceL1": "l1",
        "ReduceL2": "l2",
        "ReduceSumSquare": "sum_square",
    }
)


@dataclass(frozen=True)
class Reduce:
    """axes: counted from the front, in order; empty where the node does nothing (noop_with_empty_axes)."""

    data: str
    function: Reduction
    axes: tuple[int, ...]
    keeps_dims: bool


def read_reduce(graph: ReadableGraph, node: Node) -> Reduce:
    """Read one of `REDUCE_OPS`. Raises Refused where the axes are computed."""
    rank = len(graph.shape(node.inputs[0]))
    axes = ints_of(graph, node, 1, "axes")
    if not axes:
        axes = () if node.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return Reduce(
        data=node.inputs[0],
        function=REDUCE_OPS[node.op_type],
        axes=tuple(sorted({axis_from_front(axis, rank) for axis in axes})),
        keeps_dims=bool(node.integer("keepdims", 1)),
    )
