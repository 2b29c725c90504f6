"""Averages: the reciprocal for every window, and accuracy against ONNX Runtime."""

from __future__ import annotations

import numpy as np
from onnx import helper

from nnkit.distance import distance
from nnkit.program import Pool
from nnkit.quantize import FixedPointScheme, quantize
from nnkit.quantize.fixed.pool import average_multiplier
from nnkit.quantize.lowering import lower
from nnkit.simulate import simulate
from tests.quantize.conftest import float_values, make_model, stats_of


def test_average_pool_is_accurate_for_every_window() -> None:
    """The published 65536 // n is 3 % off for n = 3969; ours is within 2^-16 of 1/n."""
    for taps in range(1, 5000):
        multiplier, shift = average_multiplier(taps)
        assert abs(multiplier * taps / 2.0**shift - 1) < 2.0**-16


def test_global_average_against_onnx_runtime() -> None:
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["y"], name="gap")]
    model = make_model(nodes, {}, {"x": (1, 2, 63, 63)}, ["y"])
    feeds = {"x": np.random.default_rng(2).normal(1, 1, (1, 2, 63, 63)).astype(np.float32)}
    values = float_values(model, feeds)
    program = quantize(lower(model), stats_of(values), FixedPointScheme())
    assert isinstance(program.ops[0], Pool)
    stored = simulate(program, {"x": program.tensors["x"].fixed.quantize(feeds["x"][0])})
    assert distance(program.tensors["y"].fixed.dequantize(stored["y"]), values["y"]).sqnr_db > 70
