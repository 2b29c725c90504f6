"""BatchNormalization in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_batch_norm(agrees: Check) -> None:
    constants = {name: normal(6, seed=ord(name)) for name in "gbm"} | {"v": np.abs(normal(6)) + np.float32(0.2)}
    norm = node("BatchNormalization", ["x", "g", "b", "m", "v"], ["bn"], epsilon=1e-3)
    agrees([norm], {"x": normal(1, 6, 4, 5)}, constants, rtol=8e-6, atol=4e-6)
