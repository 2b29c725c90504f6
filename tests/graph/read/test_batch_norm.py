"""Batch normalisation as a scale and a shift, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.batch_norm import read_batch_norm
from nnkit.graph.refusal import Refused


def test_batch_norm_is_a_scale_and_a_shift() -> None:
    rng = np.random.default_rng(1)
    parameters = {name: rng.uniform(0.5, 2, 3).astype(np.float32) for name in ("g", "b", "m", "v")}
    case = one_node("BatchNormalization", (1, 3, 2, 2), parameters, epsilon=1e-3)
    norm = read_batch_norm(case.view, case.node)
    y = case.x * norm.scale.reshape(1, 3, 1, 1) + norm.shift.reshape(1, 3, 1, 1)
    np.testing.assert_allclose(y, case.y, rtol=1e-5, atol=1e-6)


def test_a_variance_that_is_not_positive_is_refused() -> None:
    parameters = {name: np.float32([1, -2]) for name in ("g", "b", "m", "v")}
    case = one_node("BatchNormalization", (1, 2), parameters)
    with pytest.raises(Refused, match="its variance plus epsilon is not positive"):
        read_batch_norm(case.view, case.node)
