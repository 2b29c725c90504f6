"""Slice and Split: parts of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.graph.read.operands import axis_from_front, ints_of
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph


@dataclass(frozen=True)
class Slice:
    """x[starts[0]:ends[0]:steps[0], ...], for every axis, as Python's range has them.

    Within the shape: a negative step ends at -1 where it takes the first element.
    """

    data: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    steps: tuple[int, ...]


def read_slice(graph: ReadableGraph, node: Node) -> Slice:
    """Read a Slice. Raises Refused where its bounds, axes or steps are computed."""
    shape = graph.shape(node.inputs[0])
    starts, ends = ints_of(graph, node, 1, "starts"), ints_of(graph, node, 2, "ends")
    if starts is None or ends is None:
        raise Refused("its bounds are missing")
    axes = ints_of(graph, node, 3, "axes")
    steps = ints_of(graph, node, 4, "steps") or (1,) * len(starts)
    cuts = [(0, size, 1) for size in shape]
    for given, *cut in zip(range(len(starts)) if axes is None else axes, starts, ends, steps, strict=True):
        axis = axis_from_front(given, len(shape))
        cuts[axis] = slice(*cut).indices(shape[axis])  # Python's rules for negative and far bounds are ONNX's
    return Slice(
        data=node.inputs[0],
        starts=tuple(start for start, _, _ in cuts),
        ends=tuple(end for _, end, _ in cuts),
        steps=tuple(step for _, _, step in cuts),
    )


@dataclass(frozen=True)
class Split:
    """Parts of `sizes` elements along `axis`, one for each output; `starts` says where each begins."""

    data: str
    axis: int
    sizes: tuple[int, ...]
    starts: tuple[int, ...]


def read_split(graph: ReadableGraph, node: Node) -> Split:
    """Read a Split. Raises Refused where a shape is not known."""
    axis = axis_from_front(node.integer("axis", 0), len(graph.shape(node.inputs[0])))
    sizes = tuple(graph.shape(name)[axis] for name in node.outputs)
    return Split(node.inputs[0], axis, sizes, _starts(sizes))


def _starts(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sum(sizes[:index]) for index in range(len(sizes)))
