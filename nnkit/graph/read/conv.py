"""Conv with constant weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from nnkit.graph.read.operands import optional_constant, required_constant
from nnkit.graph.read.window import SlidingWindow, read_window
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph


@dataclass(frozen=True, eq=False)
class Conv:
    """A 2-D convolution. weight: [O, I / groups, kh, kw]; bias: [O], None without. Both as the model has them."""

    data: str
    weight: NDArray[Any]
    bias: NDArray[Any] | None
    groups: int
    window: SlidingWindow


def read_conv(graph: ReadableGraph, node: Node) -> Conv:
    """Read a Conv. Raises Refused for computed weights or bias, and for other dimensions than height and width."""
    weight, bias = conv_constants(graph, node)
    return Conv(
        data=node.inputs[0],
        weight=weight,
        bias=bias,
        groups=node.integer("group", 1),
        window=read_window(graph, node),
    )


def conv_constants(graph: ReadableGraph, node: Node) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Weight and bias of a Conv or ConvTranspose over height and width, in the model's order of axes."""
    weight = required_constant(graph, node, 1, "weights are")
    if weight.ndim != 4:
        raise Refused(f"it has weights of {weight.ndim} dimensions; only 2-D convolutions are supported")
    return weight, optional_constant(graph, node, 2, "bias is")
