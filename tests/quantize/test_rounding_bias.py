"""Residual sums: the mean error of half-up rounding is gone, measured against ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from onnx import helper

from nnkit.graph import Model
from nnkit.program import Fixed
from nnkit.quantize import FixedPointScheme, quantize
from nnkit.quantize.float_program import FloatConv2d
from nnkit.quantize.lowering import lower
from nnkit.quantize.rounding_bias import without_rounding_bias
from nnkit.simulate import simulate

from .conftest import float_values, make_model, stats_of


def residual(seed: int) -> Model:
    """x + conv(x): both operands just below 8, the sum just below 16, so that it loses one bit."""
    rng = np.random.default_rng(seed)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["x", "c"], ["y"], name="sum"),
    ]
    constants = {"w": rng.normal(0, 0.4, (3, 3, 3, 3)).astype(np.float32), "b": np.zeros(3, np.float32)}
    return make_model(nodes, constants, {"x": (1, 3, 40, 40)}, ["y"])


@pytest.mark.parametrize("bits", [8, 16])
def test_sums_are_right_on_average(bits: int) -> None:
    model = residual(bits)
    feed = {"x": np.random.default_rng(1).uniform(-3.9, 3.9, (1, 3, 40, 40)).astype(np.float32)}
    values = float_values(model, feed)
    program = quantize(lower(model), stats_of(values), FixedPointScheme(bits=bits, accumulator_bits=64))
    form = program.tensors["y"].fixed
    assert max(program.tensors[name].fixed.frac for name in ("x", "c")) > form.frac  # the sum does round
    stored = {"x": program.tensors["x"].fixed.quantize(feed["x"][0])}
    error = form.dequantize(simulate(program, stored)["y"]) - values["y"][0]
    # 4,800 errors of half a unit at most: their mean has a deviation of 0.005 units. Half up alone makes it 0.125
    # or 0.25.
    assert abs(error.mean()) * 2.0**form.frac < 0.03


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_amount_is_the_mean_error_over_all_low_bits(shift: int) -> None:
    layers = lower(residual(0))
    formats = {"x": Fixed(16, 6 + shift), "c": Fixed(16, 4), "y": Fixed(16, 6)}
    count = 1 << shift
    errors = [Fraction((low + count // 2) >> shift) - Fraction(low, count) for low in range(count)]
    expected = float(sum(errors, Fraction()) / count) * 2.0**-6
    before, after = layers.ops[0], without_rounding_bias(layers, formats).ops[0]
    assert isinstance(before, FloatConv2d)
    assert isinstance(after, FloatConv2d)
    assert np.array_equal(before.bias - after.bias, np.full(3, expected))


def test_left_alone_where_nothing_is_rounded_or_another_reads_the_convolution() -> None:
    layers = lower(residual(0))
    even = {"x": Fixed(16, 6), "c": Fixed(16, 6), "y": Fixed(16, 6)}
    rounded = {**even, "y": Fixed(16, 5)}
    assert without_rounding_bias(layers, even).ops == layers.ops
    assert without_rounding_bias(layers, rounded).ops != layers.ops
    shared = replace(layers, outputs=("y", "c"))
    assert without_rounding_bias(shared, rounded).ops == layers.ops
