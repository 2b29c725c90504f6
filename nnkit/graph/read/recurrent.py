"""GRU and LSTM of ONNX: constant weights, logistic gates, states that begin as zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph

GATES: Mapping[str, int] = MappingProxyType({"GRU": 3, "LSTM": 4})
_ACTIVATIONS = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
WITHOUT_PARAMETERS = ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus")
"""Activations that are ONNX's operators of the same name."""

STATE_OPS = ("Cast", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
"""Operators by which networks take the states of their layers out of one input."""


@dataclass(frozen=True, eq=False)
class Recurrent:
    """directions: whether each runs backwards. Gates in ONNX's order: z r n of a GRU, i o f c of an LSTM.

    weights: [D, G H, I], recurrent: [D, G H, H], bias: [D, 2 G H], of the input first, then of the state.
    resets_after: a GRU resets its state behind the product with it (`linear_before_reset`).
    functions: of each direction, of the gates, of the new values and, of an LSTM, of its cell.
    """

    data: str
    cell: Literal["GRU", "LSTM"]
    directions: tuple[bool, ...]
    steps: int
    hidden: int
    weights: NDArray[np.float32]
    recurrent: NDArray[np.float32]
    bias: NDArray[np.float32]
    resets_after: bool
    functions: tuple[tuple[str, ...], ...]


def read_recurrent(graph: ReadableGraph, node: Node, *, any_function: bool = False) -> Recurrent:
    """One sequence [steps, 1, I]. Raises Refused for computed weights, clipping, coupled gates, peepholes, lengths of
    sequences, first states, several sequences and other activations than the usual.

    any_function: take those of `WITHOUT_PARAMETERS` as well.
    """
    cell: Literal["GRU", "LSTM"] = "GRU" if node.op_type == "GRU" else "LSTM"
    weights, recurrent = graph.constant(node.input(1)), graph.constant(node.input(2))
    if weights is None or recurrent is None:
        raise Refused("its weights are computed")
    direction = node.text("direction", "forward")
    directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    usual = _ACTIVATIONS[cell] * len(directions)
    given = tuple(str(each) for each in node.attributes.get("activations", usual))
    known = any_function and len(given) == len(usual) and set(given) <= set(WITHOUT_PARAMETERS)
    if given != usual and not known:
        raise Refused(f"its activations are {', '.join(given)}")
    if "clip" in node.attributes or node.integer("layout", 0) or node.integer("input_forget", 0):
        raise Refused("it clips, couples its gates, or has the batch first")
    steps, images, _ = graph.shape(node.input(0))
    if images != 1:
        raise Refused(f"it takes {images} sequences at a time")
    for index, what in ((4, "lengths of sequences"), (7, "peepholes")):
        if node.input(index) and not _is_zero(graph, node.input(index), fill=steps):
            raise Refused(f"it has {what}")
    for index in (5, 6):
        if node.input(index) and not _is_zero(graph, node.input(index)):
            raise Refused(_first_state(graph, node.input(index)))
    hidden = recurrent.shape[2]
    bias = graph.constant(node.input(3)) if node.input(3) else None
    if bias is None:
        if node.input(3):
            raise Refused("its bias is computed")
        bias = np.zeros((len(directions), 2 * GATES[cell] * hidden), np.float32)
    resets_after = cell == "LSTM" or bool(node.integer("linear_before_reset", 0))
    size = len(_ACTIVATIONS[cell])
    functions = tuple(given[at : at + size] for at in range(0, len(given), size))
    return Recurrent(
        node.input(0), cell, directions, steps, hidden, weights, recurrent, bias, resets_after, functions
    )


def _first_state(graph: ReadableGraph, value: str) -> str:
    """Where a first state that is not zero comes from."""
    if graph.constant(value) is not None:
        return "it begins with a constant state that is not zero; taken are layers that begin with zeros"
    node = graph.producer(value)
    while node is not None and node.is_op(*STATE_OPS) and graph.constant(node.input(0)) is None:
        value, node = node.input(0), graph.producer(node.input(0))
    if node is not None:
        return f"its first state is computed, by '{node.name}'; taken are layers that begin with zeros"
    return (
        f"its first state is given from outside, at input '{value}' (the network goes on where the last call ended); "
        "taken are layers that begin with zeros"
    )


def _is_zero(graph: ReadableGraph, value: str, fill: int | None = None) -> bool:
    array = graph.constant(value)
    return array is not None and (not np.any(array) or (fill is not None and bool(np.all(array == fill))))
