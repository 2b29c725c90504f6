"""What a kernel may read, and how far its arrays step."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from nnkit.c.float.calls import Read
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node

_FLOAT32 = 1  # of ONNX's element types


def check_float32(graph: GraphView, value: str) -> None:
    """Raises Refused unless a value is float32 of a static shape."""
    if graph.element_types.get(value) != _FLOAT32:
        raise Refused(f"value '{value}' is not float32")
    graph.shape(value)


def read(graph: GraphView, value: str, offset: int = 0) -> Read:
    """Pointer to a value, `offset` numbers from its start. Raises Refused unless it is float32 of a static shape."""
    check_float32(graph, value)
    return Read(value, offset)


def read_or_null(graph: GraphView, node: Node, index: int) -> Read | str:
    """Pointer to an optional input; the null pointer where it is left out."""
    name = node.input(index)
    return read(graph, name) if name else "0"


def strides(shape: Sequence[int]) -> list[int]:
    """Steps of a contiguous array, in values."""
    steps = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        steps[axis] = steps[axis + 1] * shape[axis + 1]
    return steps


def broadcast_strides(shape: Sequence[int], target: Sequence[int]) -> list[int]:
    """Steps of a contiguous array of `shape` along `target`: 0 where it is repeated."""
    padded = [1] * (len(target) - len(shape)) + list(shape)
    return [0 if size == 1 else step for size, step in zip(padded, strides(padded), strict=True)]


def around_axis(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """How many values there are before, along and behind an axis."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
