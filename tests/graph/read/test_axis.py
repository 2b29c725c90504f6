"""The axis of ops along one axis, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.axis import read_axis


@pytest.mark.parametrize(("attributes", "axis"), [({}, 2), ({"axis": 1}, 1), ({"axis": -3}, 0)])
def test_axis_of_a_softmax(attributes: dict[str, int], axis: int) -> None:
    case = one_node("Softmax", (2, 3, 4), **attributes)
    assert read_axis(case.view, case.node) == axis
    e = np.exp(case.x)
    np.testing.assert_allclose(e / e.sum(axis=axis, keepdims=True), case.y, rtol=1e-5)
