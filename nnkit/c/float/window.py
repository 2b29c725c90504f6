"""`nnkit_window`: the window of convolutions and pools as the kernels take it; a map of one dimension is one row."""

from __future__ import annotations

from nnkit.c.float.calls import Struct, struct
from nnkit.graph.read.conv_transpose import TransposedWindow
from nnkit.graph.read.window import SlidingWindow
from nnkit.graph.view import GraphView, Node


def window_struct(graph: GraphView, node: Node, window: SlidingWindow | TransposedWindow, groups: int = 1) -> Struct:
    """The structure for a node that slides `window` over its first input."""
    return struct(
        "nnkit_window",
        graph.shape(node.inputs[0])[1],
        *window.input_hw,
        graph.shape(node.output)[1],
        *window.output_hw,
        *window.kernel,
        *window.strides,
        *window.dilations,
        *window.pads,
        groups,
    )
