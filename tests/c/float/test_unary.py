"""Functions of one value in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_unary(agrees: Check) -> None:
    signed = ["Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "Tanh", "Elu", "Softplus", "Exp", "Abs", "Neg", "Floor"]
    signed += ["Softsign", "Mish", "HardSwish", "Sign"]
    positive = ["Log", "Sqrt", "Reciprocal", "Ceil"]
    nodes = [node(kind, ["x"], [kind]) for kind in signed] + [node(kind, ["p"], [kind]) for kind in positive]
    nodes += [node("LeakyRelu", ["x"], ["leaky"], alpha=0.3), node("Elu", ["x"], ["elu"], alpha=0.7)]
    nodes += [node("HardSigmoid", ["x"], ["hard"], alpha=0.3, beta=0.6)]
    nodes += [node("Clip", ["x", "low", "high"], ["clip"]), node("Clip", ["x", "", "high"], ["clip_high"])]
    constants = {"low": np.float32(-0.5), "high": np.float32(0.75)}
    x = 3 * normal(1, 4, 5, 6)
    agrees(nodes, {"x": x, "p": np.abs(x) + np.float32(0.01)}, constants)
