"""Bounds of Clip and Relu against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node, view_of
from onnx import helper

from nnkit.graph.read.clip import read_clip
from nnkit.graph.refusal import Refused


@pytest.mark.parametrize(
    ("op", "constants", "inputs", "bounds"),
    [
        ("Relu", {}, None, (0.0, np.inf)),
        ("Clip", {}, None, (-np.inf, np.inf)),
        ("Clip", {"low": np.float32(-0.5)}, None, (-0.5, np.inf)),
        ("Clip", {"high": np.float32(0.25)}, ("x", "", "high"), (-np.inf, 0.25)),
        ("Clip", {"low": np.finfo(np.float32).min, "high": np.float32(6)}, None, (-np.inf, 6.0)),
    ],
)
def test_bounds(op: str, constants: dict[str, Any], inputs: Any, bounds: tuple[float, float]) -> None:
    case = one_node(op, (1, 3, 2, 2), constants, inputs=inputs)
    clip = read_clip(case.view, case.node)
    assert (clip.low, clip.high) == bounds
    np.testing.assert_array_equal(np.clip(case.x, clip.low, clip.high), case.y)


def test_bounds_of_older_operator_sets_are_attributes() -> None:
    case = one_node("Clip", (1, 3), opset=6, min=-0.5, max=0.5)
    clip = read_clip(case.view, case.node)
    np.testing.assert_array_equal(np.clip(case.x, clip.low, clip.high), case.y)


def test_a_computed_bound_is_refused() -> None:
    view = view_of([helper.make_node("Clip", ["x", "", "m"], ["y"])], {"x": (1, 3), "m": ()})
    with pytest.raises(Refused, match="its max is not constant"):
        read_clip(view, view.nodes[0])
