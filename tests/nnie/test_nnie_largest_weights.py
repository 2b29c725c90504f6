"""Largest weights raised to the next code: what the mapper reads, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nnkit_nnie.corrections.largest_weights import with_largest_raised

STEP = 2.0 ** (1 / 16)


def stored(values: list[float]) -> list[float]:
    """What the mapper makes of a group with one scale, value by value, in the precision of its file."""
    group = [float(np.float32(v)) for v in values]
    z = math.floor(16 * math.log2(max(abs(v) for v in group))) - 127
    codes = [min(max(round(16 * math.log2(abs(v)) - z), 0), 127) for v in group]
    return [math.copysign(2.0 ** ((k + z) / 16), v) for k, v in zip(codes, group, strict=True)]


@pytest.mark.parametrize(("above", "raised"), [(0.1, False), (0.45, False), (0.6, True), (0.95, True)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_group(above: float, raised: bool, sign: float) -> None:
    """A weight that lies by a part of a step above a code, beside others that lie on codes."""
    group = [0.25, sign * STEP**above, 0.5, -(STEP**-3)]
    changed = with_largest_raised(np.reshape(group, (1, 1, 2, 2)), 1).ravel().tolist()
    assert [a == b for a, b in zip(changed, group, strict=True)] == [True, not raised, True, True]
    expected = [0.25, sign * (STEP if raised else 1.0), 0.5, -(STEP**-3)]
    assert stored(changed) == pytest.approx(expected, rel=1e-12)
    assert stored(group) == pytest.approx([0.25, sign, 0.5, -(STEP**-3)], rel=1e-12)


def test_depthwise_channels_have_half_the_error() -> None:
    """Each channel is its own group; what is cut by up to a step is at most half a step away."""
    weights = np.random.default_rng(3).normal(size=(200, 1, 3, 3))
    after = with_largest_raised(weights, 200)

    def worst(given: np.ndarray) -> float:
        errors = []
        for real, row in zip(weights.reshape(200, 9), given.reshape(200, 9), strict=True):
            at = int(np.abs(real).argmax())
            errors.append(abs(stored(row.tolist())[at] / real[at] - 1.0))
        return max(errors)

    assert worst(weights) > 0.035
    assert worst(after) < STEP**0.5 - 1.0 + 1e-6


def test_dead_channels_stay() -> None:
    weights = np.full((2, 1, 1, 1), 1e-9)
    assert np.array_equal(with_largest_raised(weights, 2), weights)
