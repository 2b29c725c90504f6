"""Functions of two and of several values in C, with broadcasting, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


@pytest.mark.parametrize("shape", [(1, 4, 5, 6), (1, 4, 1, 1), (4, 1, 6), (1,), ()])
def test_binary_with_broadcast(agrees: Check, shape: tuple[int, ...]) -> None:
    kinds = ["Add", "Sub", "Mul", "Div", "Max", "Min"]
    nodes = [node(kind, ["x", "c"], [kind]) for kind in kinds]
    nodes += [node(kind, ["c", "x"], [f"{kind}_turned"]) for kind in kinds]
    nodes += [node("Pow", ["p", "c"], ["pow"]), node("Sum", ["c", "x", "p"], ["sum"])]
    nodes += [node("Mean", ["x", "c", "p"], ["mean"]), node("Max", ["x", "c", "p"], ["max3"])]
    x = normal(1, 4, 5, 6)
    agrees(nodes, {"x": x, "p": np.abs(x) + np.float32(0.1)}, {"c": np.asarray(normal(*shape, seed=2))}, rtol=4e-6)


def test_slopes_by_channel(agrees: Check) -> None:
    agrees([node("PRelu", ["x", "slope"], ["prelu"])], {"x": 3 * normal(1, 4, 5, 6)}, {"slope": normal(4, 1, 1)})
