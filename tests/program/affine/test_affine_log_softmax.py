"""The logarithm of a softmax in affine integers against floats."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.errors import ModelError
from nnkit.program.affine import AffineLogSoftmax, AffineTensor
from nnkit.program.formats import Affine

U8, S8, S16 = (
    Affine(8, (0.07,), (90,)),
    Affine(8, (0.11,), (127,), signed=True),
    Affine(16, (0.0006,), (0,), signed=True),
)
FINE = Affine(16, (2.0**-12,), (32767,), signed=True)


@pytest.mark.parametrize(("given", "made"), [(U8, S8), (U8, FINE), (S16, S8), (S16, FINE)])
@pytest.mark.parametrize("length", [1, 2, 12, 700])
def test_it_is_as_near_as_its_tables(given: Affine, made: Affine, length: int) -> None:
    """Half a unit, and what a logarithm bends between two entries of its table with the rounding of both."""
    source, output = AffineTensor("x", (3, length), given), AffineTensor("y", (3, length), made)
    op = AffineLogSoftmax(
        name="op",
        inputs=("x",),
        output="y",
        tags=(),
        origins=(),
        axis=1,
        **AffineLogSoftmax.constants(source, output, length, "op"),
    )
    stored = np.random.default_rng(length).integers(given.qmin, given.qmax + 1, (2, 3, length))
    real = (stored - given.zero_point[0]) * given.scale[0]
    real = real - real.max(axis=2, keepdims=True)
    real = (real - np.log(np.exp(real).sum(axis=2, keepdims=True))) / made.scale[0] + made.zero_point[0]
    result = op.compute_many([stored.astype(given.dtype)], {"x": source, "y": output})
    bound = 0.5 + (2.0**-19 + 3 * 2.0**-24 + length * 2.0**-30) / made.scale[0]
    assert np.abs(result - np.clip(real, made.qmin, made.qmax)).max() <= bound
    assert result.max() > made.qmin


def test_scales_too_far_apart_are_refused() -> None:
    source, output = (
        AffineTensor("x", (4,), Affine(8, (1e6,), (0,))),
        AffineTensor("y", (4,), Affine(8, (1e-6,), (0,))),
    )
    with pytest.raises(ModelError, match="has no exact integers"):
        AffineLogSoftmax.constants(source, output, 4, "op")
