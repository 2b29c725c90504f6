"""The float program on several samples at once gives what ONNX Runtime gives for each of them alone."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from nnkit.quantize.affine.float_run import all_values
from nnkit.quantize.lowering import lower
from tests.quantize.conftest import float_values, make_model


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_softmax_of_each_sample(axis: int, op: str) -> None:
    node = helper.make_node(op, ["x"], ["y"], name="s", axis=axis)
    model = make_model([node], {}, {"x": (1, 4, 2, 3)}, ["y"])
    samples = np.random.default_rng(axis).normal(0, 60, (5, 4, 2, 3)).astype(np.float32)
    [values] = all_values(lower(model), {"x": samples})
    alone = [float_values(model, {"x": sample[np.newaxis]})["y"][0] for sample in samples]
    np.testing.assert_allclose(values["y"], np.stack(alone), rtol=1e-5, atol=1e-30 if op == "Softmax" else 1e-5)
