"""Pad by constant amounts."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.graph.read.operands import axis_from_front, ints_of, optional_number
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph


@dataclass(frozen=True)
class Pad:
    """before, after: elements added to each axis; negative ones are cut off. mode: ONNX's; value: of `constant`."""

    data: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    mode: str
    value: float

    @property
    def pads_hw_only(self) -> bool:
        """Whether it pads [N, C, H, W] at height and width alone."""
        return len(self.before) == 4 and not any((*self.before[:2], *self.after[:2]))


def read_pad(graph: ReadableGraph, node: Node) -> Pad:
    """Read a Pad. Raises Refused where its pads, value or axes are computed."""
    rank = len(graph.shape(node.inputs[0]))
    amounts = ints_of(graph, node, 1, "pads")
    if amounts is None:
        raise Refused("its pads are missing")
    axes = ints_of(graph, node, 3, "axes")
    places = range(rank) if axes is None else [axis_from_front(axis, rank) for axis in axes]
    before, after = [0] * rank, [0] * rank
    for place, axis in enumerate(places):
        before[axis], after[axis] = amounts[place], amounts[place + len(places)]
    value = optional_number(graph, node, 2, "value is")
    return Pad(
        data=node.inputs[0],
        before=tuple(before),
        after=tuple(after),
        mode=node.text("mode", "constant"),
        value=node.number("value", 0.0) if value is None else value,
    )
