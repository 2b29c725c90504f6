"""Slopes and parameters of activations against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.activation import activation_parameters, read_slopes
from nnkit.graph.refusal import Refused


@pytest.mark.parametrize(
    ("op", "constants", "attributes", "count"),
    [
        ("LeakyRelu", {}, {}, 1),
        ("LeakyRelu", {}, {"alpha": 0.3}, 1),
        ("PRelu", {"s": np.float32([0.2])}, {}, 1),
        ("PRelu", {"s": np.float32([0.1, -0.2, 0.3]).reshape(3, 1, 1)}, {}, 3),
        ("PRelu", {"s": np.full((1, 3, 2, 4), 0.5, np.float32)}, {}, 3),
    ],
)
def test_slopes(op: str, constants: dict[str, Any], attributes: dict[str, Any], count: int) -> None:
    case = one_node(op, (1, 3, 2, 4), constants, **attributes)
    slopes = read_slopes(case.view, case.node)
    assert slopes.shape == (count,)
    expected = np.where(case.x < 0, case.x * slopes.reshape(1, -1, 1, 1), case.x)
    np.testing.assert_allclose(expected, case.y, rtol=1e-6)


def test_slopes_that_differ_within_a_channel_are_refused() -> None:
    case = one_node("PRelu", (1, 3, 2, 4), {"s": np.float32([0.1, 0.2, 0.3, 0.4])})
    with pytest.raises(Refused, match=r"its 4 slopes are not one per channel \(3\), nor one for all"):
        read_slopes(case.view, case.node)


@pytest.mark.parametrize("op", ["LeakyRelu", "Elu", "HardSigmoid"])
def test_defaults_are_those_of_onnx(op: str) -> None:
    stated = dict(zip(("alpha", "beta"), activation_parameters(one_node(op, (1, 9)).node), strict=False))
    np.testing.assert_array_equal(one_node(op, (1, 9), **stated).y, one_node(op, (1, 9)).y)
