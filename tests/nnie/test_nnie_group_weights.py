"""Weights with a scale for each group, against the formulas written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nnkit_nnie.gfpq.group_weights import dequantize_groups, group_scales, quantize_groups, scales_in_words


@pytest.mark.parametrize(("bits", "steps", "top"), [(8, 16, 127), (16, 128, 1407)])
def test_each_channel_of_a_depthwise_layer_has_its_scale(bits: int, steps: int, top: int) -> None:
    weight = np.random.default_rng(1).normal(0.0, 1.0, (3, 1, 3, 3)) * np.asarray([1.0, 0.01, 40.0]).reshape(
        3, 1, 1, 1
    )
    scales = group_scales(weight, 3, bits)
    assert [scale.z for scale in scales] == [
        math.floor(steps * math.log2(float(np.abs(part).max()))) - top for part in weight
    ]
    codes = quantize_groups(weight, scales)
    for part, code, scale in zip(weight, codes, scales, strict=True):
        large = np.abs(part) > np.abs(part).max() / 64  # far from what becomes zero
        k = np.minimum(np.rint(steps * np.log2(np.abs(part)) - scale.z), top)
        assert np.array_equal((code & (scale.zero - 1))[large], k[large])
        assert np.array_equal(code >= scale.zero, part < 0)
    back = dequantize_groups(codes, scales)
    half_a_step_and_the_floor = 2.0 ** (1.0 / steps) - 1.0
    assert back.shape == weight.shape
    large = np.abs(weight) > np.abs(weight).max(axis=(1, 2, 3), keepdims=True) / 64
    assert float(np.abs(back / weight - 1.0)[large].max()) <= half_a_step_and_the_floor


def test_words() -> None:
    weight = np.asarray([[1.0], [0.5]])
    assert scales_in_words(group_scales(weight, 1, 8)) == "gfpq8 z -127"
    assert scales_in_words(group_scales(weight, 2, 8)) == "gfpq8 z -143 to -127 in 2 groups"
    assert scales_in_words(group_scales(np.ones((2, 1)), 2, 8)) == "gfpq8 z -127 in 2 groups"


def test_a_channel_of_zeros_takes_the_smallest_magnitude() -> None:
    assert group_scales(np.zeros((1, 4)), 1, 8)[0].z == math.floor(16 * math.log2(1e-6)) - 127
