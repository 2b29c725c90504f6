"""MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nnkit.graph.read.operands import image_hw
from nnkit.graph.read.window import SlidingWindow, read_window
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph

POOL_OPS = ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")


@dataclass(frozen=True)
class Pool:
    """A pool over height and width. A global one has a window of the whole map.

    counts_padding: an average counts padded elements (ONNX's count_include_pad); false for maxima, and where windows
    reach beyond the map with ceil_mode alone: what they cover there is never counted.
    """

    data: str
    kind: Literal["max", "average"]
    window: SlidingWindow
    counts_padding: bool
    is_global: bool


def read_pool(graph: ReadableGraph, node: Node, *, one_row: bool = False) -> Pool:
    """Read one of `POOL_OPS`. one_row: see `read_window`.

    Raises Refused for other numbers of dimensions, and where the indices of the maxima are asked for.
    """
    if len(node.results) > 1:
        raise Refused("it gives out the indices of its maxima")
    is_global = node.op_type.startswith("Global")
    window = _whole_map(graph, node) if is_global else read_window(graph, node, one_row=one_row)
    counts = node.op_type == "AveragePool" and bool(node.integer("count_include_pad", 0))
    return Pool(
        data=node.inputs[0],
        kind="max" if node.op_type.endswith("MaxPool") else "average",
        window=window,
        counts_padding=counts and (any(window.pads) or not window.has_partial_windows),
        is_global=is_global,
    )


def _whole_map(graph: ReadableGraph, node: Node) -> SlidingWindow:
    size = image_hw(graph.shape(node.inputs[0]))
    return SlidingWindow(size, (1, 1), (1, 1), (0, 0, 0, 0), False, size, (1, 1))
