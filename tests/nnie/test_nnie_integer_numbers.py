"""Biases, multipliers and results as integers, against Python's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nnie_networks import Net

from nnkit.calibrate import calibrate
from nnkit.program import Float
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.gfpq.integer_numbers import LARGEST_MULTIPLIER, multiplier, scales_of_multiplier, shift, to_s20_12
from nnkit_nnie.gfpq.quantize import Precision, to_program
from nnkit_nnie.limits.context import Division
from nnkit_nnie.segments import divide


@given(st.lists(st.integers(-(1 << 50), 1 << 50), min_size=1), st.integers(-400, 1200), st.sampled_from([16, 128]))
def test_results(sums: list[int], s: int, steps: int) -> None:
    """(sum * multiplier) >> shift rounds down also below zero, and saturates; it is sum 2^(12 - s / F)."""
    m, by = min(multiplier(s, steps), LARGEST_MULTIPLIER), shift(s, steps)
    found = to_s20_12(np.asarray(sums, np.int64), np.asarray([m], np.int64), np.asarray([by], np.int64))
    expected = [min(max((each * m) >> by, -(1 << 31)), (1 << 31) - 1) for each in sums]
    assert found.tolist() == expected


def test_rounding_down_is_told_from_rounding_to_the_nearest() -> None:
    one = np.asarray([1 << 29], np.int64)
    assert to_s20_12(np.asarray([-3, -1, 1, 3]), one, np.asarray([30])).tolist() == [-2, -1, 0, 1]


@pytest.mark.parametrize(
    ("s", "stored", "by"),
    [(177, 0x7A92BE8B, 30), (168, 0x0016A09E, 19), (169, 0x0015AB08, 19), (165, 0x0019C492, 19)],
)
def test_multipliers_of_the_vendors_file(s: int, stored: int, by: int) -> None:
    """Of channels of one depthwise layer: beyond 31 bits they are 2^11 smaller."""
    assert (multiplier(s, 16), shift(s, 16)) == (stored, by)
    assert stored / 2.0**by == pytest.approx(2.0 ** (12 - s / 16), rel=1e-6)
    assert s in scales_of_multiplier(stored, 16)
    assert all(multiplier(each, 16) == stored for each in scales_of_multiplier(stored, 16))
    assert scales_of_multiplier(stored + 1, 16) == ()


@pytest.mark.parametrize("scale", [1.0, 3e-7, 1e-12])
def test_what_does_not_fit_32_bits_is_told(scale: float) -> None:
    """Weights that are nearly zero make the accumulator's unit so small that a bias of 1 takes more than 32 bits."""
    net = Net()
    weight = net.constant("w", np.full((1, 1, 1, 1), scale))
    bias = net.constant("b", np.asarray([1.0]))
    model = net.model(net.node("Conv", [net.input("data", 1, 2, 2), weight, bias], "conv", kernel_shape=[1, 1]))
    given = {"data": [np.full((1, 1, 2, 2), 0.01, np.float32)]}
    program = to_program(
        divide(model, Division("hi3516cv500")), calibrate(model, given, {}), Precision(0, frozenset()), name="t",
        inputs={"data": Float(32)},
    )  # fmt: skip
    (op,) = program.ops
    z = math.floor(16 * math.log2(max(float(np.float32(scale)), 1e-6))) + math.floor(16 * math.log2(np.float32(0.01)))
    assert op.integer_biases.tolist() == [round(2.0 ** ((254 - z) / 16))]  # type: ignore[attr-defined]
    stored = simulate(program, quantized_inputs(program, Sample("s", {"data": given["data"][0]})))
    assert (
        np.abs(stored["conv"] - (1.0 + scale * 0.01) * 4096).max() <= 0.09 * scale * 0.01 * 4096 + 1
    )  # both scales are rounded down
    assert any("a bias of conv takes more than the 32 bits" in note for note in program.notes) == (scale < 1.0)
