"""RNN, GRU and LSTM in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper
from segment_networks import network, normal

from nnkit.c.float.catalogue import code_of
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView

Check = Callable[..., None]
STEPS, SEQUENCES, INPUTS, HIDDEN = 7, 2, 5, 3
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def weights(kind: str, directions: int) -> dict[str, NDArray[np.float32]]:
    rows = GATES[kind] * HIDDEN
    shapes = {"w": (directions, rows, INPUTS), "r": (directions, rows, HIDDEN), "b": (directions, 2 * rows)}
    return {name: normal(*shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("RNN", {}),
        ("RNN", {"activations": ["Relu"]}),
        ("GRU", {}),
        ("GRU", {"linear_before_reset": 1}),
        ("LSTM", {}),
        ("LSTM", {"activations": ["Sigmoid", "Tanh", "Tanh"]}),
    ],
)
def test_every_result(agrees: Check, kind: str, attributes: dict[str, Any], direction: str) -> None:
    """Two sequences at once, with first states and without, with biases and without."""
    directions = 2 if direction == "bidirectional" else 1
    if "activations" in attributes:
        attributes = attributes | {"activations": attributes["activations"] * directions}
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    common = {"hidden_size": HIDDEN, "direction": direction, **attributes}
    nodes = [
        helper.make_node(kind, ["x", "w", "r", "b", "", *states], ["y", *(f"y_{s}" for s in states)], **common),
        helper.make_node(kind, ["x", "w", "r"], ["", "h_alone"], **common),
        helper.make_node(kind, ["x", "w", "r", "b"], ["y_alone", "unread"], **common),
    ]
    inputs = {"x": normal(STEPS, SEQUENCES, INPUTS), **{s: normal(directions, SEQUENCES, HIDDEN) for s in states}}
    outputs = ["y", *(f"y_{s}" for s in states), "h_alone", "y_alone"]
    agrees(nodes, inputs, weights(kind, directions), outputs=outputs, rtol=1e-5, atol=4e-6)


def test_lengths_of_all_steps_are_none(agrees: Check) -> None:
    constants: dict[str, NDArray[Any]] = {**weights("GRU", 1), "lengths": np.full(SEQUENCES, STEPS, np.int32)}
    nodes = [helper.make_node("GRU", ["x", "w", "r", "b", "lengths"], ["y"], hidden_size=HIDDEN)]
    agrees(nodes, {"x": normal(STEPS, SEQUENCES, INPUTS)}, constants, rtol=1e-5, atol=4e-6)


@pytest.mark.parametrize(
    ("kind", "attributes", "extra", "reason"),
    [
        ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"]}, {}, "its activations are Sigmoid, Relu, Tanh"),
        ("LSTM", {"clip": 1.0}, {}, "it clips, or couples its gates"),
        ("LSTM", {"input_forget": 1}, {}, "it clips, or couples its gates"),
        ("LSTM", {}, {7: np.ones((1, 3 * HIDDEN), np.float32)}, "it has peepholes"),
        ("GRU", {}, {4: np.full(SEQUENCES, STEPS - 1, np.int32)}, "its sequences have lengths of their own"),
        ("GRU", {"layout": 1}, {}, "it takes several sequences, the batch first"),
    ],
)
def test_refusals(kind: str, attributes: dict[str, Any], extra: dict[int, NDArray[Any]], reason: str) -> None:
    constants: dict[str, NDArray[Any]] = {**weights(kind, 1)}
    constants |= {f"extra{index}": array for index, array in extra.items()}
    names = ["x", "w", "r", "b", "", "", "", ""]
    for index in extra:
        names[index] = f"extra{index}"
    node = helper.make_node(kind, names[: max([3, *extra]) + 1], ["y"], name="n", hidden_size=HIDDEN, **attributes)
    shape = (SEQUENCES, STEPS, INPUTS) if attributes.get("layout") else (STEPS, SEQUENCES, INPUTS)
    graph = GraphView.of(network([node], {"x": normal(*shape)}, constants, None))
    with pytest.raises(Refused, match=reason):
        code_of(graph, graph.nodes[0])
