"""GRU and LSTM as they are read; what they compute is compared where they are lowered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.recurrent import read_recurrent
from nnkit.graph.refusal import Refused

RNG = np.random.default_rng(4)


def _constants(gates: int, ways: int = 1, **more: Any) -> dict[str, Any]:
    shapes = {"w": (ways, gates * 3, 5), "r": (ways, gates * 3, 3), "b": (ways, 2 * gates * 3)}
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()} | more


def test_both_directions_of_an_lstm() -> None:
    constants = _constants(4, 2)
    case = one_node("LSTM", (6, 1, 5), constants, hidden_size=3, direction="bidirectional")
    layer = read_recurrent(case.view, case.node)
    assert (layer.cell, layer.directions, layer.steps, layer.hidden) == ("LSTM", (False, True), 6, 3)
    np.testing.assert_array_equal(layer.weights, constants["w"])
    np.testing.assert_array_equal(layer.recurrent, constants["r"])
    np.testing.assert_array_equal(layer.bias, constants["b"])


def test_when_a_gru_resets() -> None:
    for before in (0, 1):
        case = one_node("GRU", (6, 1, 5), _constants(3), hidden_size=3, linear_before_reset=before)
        assert read_recurrent(case.view, case.node).resets_after == bool(before)


def test_several_sequences_are_refused() -> None:
    case = one_node("GRU", (6, 2, 5), _constants(3), hidden_size=3)
    with pytest.raises(Refused, match="2 sequences at a time"):
        read_recurrent(case.view, case.node)
