"""What all readers need: constants that a node must have, integers from inputs or attributes, axes, images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph, Shape


def required_constant(graph: ReadableGraph, node: Node, index: int, what: str) -> NDArray[Any]:
    """A constant input. what: with its verb, "weights are". Raises Refused where it is computed or left out."""
    name = node.input(index)
    array = graph.constant(name) if name else None
    if array is None:
        raise Refused(f"its {what} not constant" if name else f"its {what} missing")
    return array


def optional_constant(graph: ReadableGraph, node: Node, index: int, what: str) -> NDArray[Any] | None:
    """A constant input, None where it is left out. Raises Refused where it is computed."""
    return required_constant(graph, node, index, what) if node.input(index) else None


def optional_number(graph: ReadableGraph, node: Node, index: int, what: str) -> float | None:
    """The number in a constant input, None where it is left out. Raises Refused for a computed one or several."""
    array = optional_constant(graph, node, index, what)
    if array is None:
        return None
    if array.size == 0 or not np.all(array == array.flat[0]):
        raise Refused(f"its {what} not one number")
    return float(array.flat[0])


def ints_of(graph: ReadableGraph, node: Node, index: int, name: str) -> tuple[int, ...] | None:
    """Integers that newer operator sets have as input `index` and older ones as attribute `name`; None without.

    Raises Refused where they are computed.
    """
    if node.input(index):
        return tuple(int(value) for value in required_constant(graph, node, index, f"{name} are").reshape(-1))
    return node.ints(name) if name in node.attributes else None


def axis_from_front(axis: int, rank: int) -> int:
    """An axis as ONNX counts it, negative ones from the back. Raises Refused where there is none such."""
    if not -rank <= axis < rank:
        raise Refused(f"it has an axis {axis} of {rank} dimensions")
    return axis % rank


def image_hw(shape: Sequence[int]) -> tuple[int, int]:
    """Height and width of [N, C, H, W]. Raises Refused for anything else."""
    if len(shape) != 4:
        raise Refused(f"it works on a tensor of {len(shape)} dimensions; only [N, C, H, W] is supported")
    return shape[2], shape[3]


def per_channel(array: NDArray[Any], shape: Shape) -> NDArray[Any] | None:
    """[C] values of a constant broadcast to `shape` ([N, C, ...]); None where they differ within a channel."""
    if len(shape) < 2 or array.ndim > len(shape):
        return None
    try:
        full = np.broadcast_to(array, shape)
    except ValueError:
        return None
    spatial = len(shape) - 2
    channels = np.array(full[(0, slice(None)) + (0,) * spatial])
    return channels if np.array_equal(full, np.broadcast_to(channels.reshape(-1, *[1] * spatial), shape)) else None
