"""Softmax, normalised rows and products of matrices in fixed point: the stated errors, against floats."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.graph.tags import NO_TAGS
from nnkit.program import Embedding, Fixed, MatMul, NormalizeRows, OutputStage, Softmax, Tensor
from nnkit.quantize.fixed.log_softmax import LogSoftmaxLowering
from nnkit.quantize.float_program import FloatLogSoftmax
from nnkit.quantize.row_constants import RowConstants
from nnkit.quantize.scheme import FixedPointScheme

COMMON = {"name": "op", "output": "y", "placement": "npu"}


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("spread", [1.0, 40.0, 3000.0])
def test_softmax_is_as_near_as_stated(bits: int, axis: int, spread: float) -> None:
    source, output = Fixed(bits, bits - 5), Fixed(bits, bits - 2)
    x = np.random.default_rng(1).normal(0, spread, (9, 12)).round().clip(source.qmin, source.qmax).astype(np.int64)
    coarse, fine = Softmax.tables(bits, source.frac)
    op = Softmax(
        **COMMON,
        inputs=("x",),
        axis=axis,
        coarse=coarse,
        fine=fine,
        frac=output.frac,
        clip_min=0,
        clip_max=output.qmax,
    )
    stored = op.compute([x], {"y": Tensor("y", x.shape, output)})
    real = np.exp((x - x.max(axis=axis, keepdims=True)) * 2.0**-source.frac)
    real *= 2.0**output.frac / real.sum(axis=axis, keepdims=True)
    assert np.abs(stored - real).max() <= 0.5 + 2.5 * 2.0 ** (output.frac - 16) * (1 + x.shape[axis])


@pytest.mark.parametrize(("bits", "frac", "out_frac"), [(8, 3, 2), (16, 11, 10), (16, 28, 13), (16, -2, 0)])
@pytest.mark.parametrize("spread", [1.0, 40.0, 9000.0])
def test_logarithm_of_softmax_is_as_near_as_stated(bits: int, frac: int, out_frac: int, spread: float) -> None:
    shape, axis = (9, 12), 1
    forms = Fixed(bits, frac), Fixed(bits, out_frac)
    source, output = (Tensor(name, shape, form, form.qmin, form.qmax) for name, form in zip("xy", forms, strict=True))
    layer = FloatLogSoftmax(name="op", inputs=("x",), output="y", range_value="y", tags=NO_TAGS, axis=axis)
    op = LogSoftmaxLowering().build(layer, {"x": source, "y": output}, FixedPointScheme(bits=bits))
    drawn = np.random.default_rng(1).normal(0, spread, shape).round()
    x = drawn.clip(source.fixed.qmin, source.fixed.qmax).astype(np.int64)
    stored = op.compute([x], {"x": source, "y": output})
    real = (x - x.max(axis=axis, keepdims=True)) * 2.0**-frac
    real -= np.log(np.exp(real).sum(axis=axis, keepdims=True))
    real = np.clip(real * 2.0**out_frac, output.fixed.qmin, output.fixed.qmax)
    stated = float(op.proof_note.split()[2])
    assert np.abs(stored - real).max() <= stated * 1.005  # of which three digits are told
    assert stated < 1.0 or out_frac > 10


def test_rows_of_a_table_whose_numbers_are_kept_within_it() -> None:
    table = np.arange(15).reshape(5, 3)
    op = Embedding(**COMMON, inputs=("x",), table=table, table_bits=16)
    assert op.compute([np.array([[4, 0], [-1, 9]])], {})[:, :, 0].tolist() == [[12, 0], [0, 12]]
    assert op.weight_bytes() == 30


@pytest.mark.parametrize("offset", [0, 30000])
@pytest.mark.parametrize("spread", [3.0, 900.0])
def test_normalised_rows_against_floats(offset: int, spread: float) -> None:
    source, output, random = Fixed(16, 8), Fixed(16, 12), np.random.default_rng(2)
    x = (random.normal(0, spread, (7, 33)).round() + offset).clip(source.qmin, source.qmax).astype(np.int64)
    gain, shift = random.normal(1, 0.3, 33), random.normal(0, 1, 33)
    constants = RowConstants.of(gain, shift, 1e-5, 2.0**-source.frac, 2.0**-output.frac)
    op = NormalizeRows(
        **COMMON,
        inputs=("x",),
        epsilon=constants.epsilon,
        gain=constants.gain,
        offset=constants.offset,
        shift=constants.shift,
        clip_min=output.qmin,
        clip_max=output.qmax,
    )
    stored = op.compute([x], {"y": Tensor("y", x.shape, output)})
    real = x * 2.0**-source.frac
    real = (real - real.mean(axis=1, keepdims=True)) / np.sqrt(real.var(axis=1, keepdims=True) + 1e-5)
    real = np.clip((real * gain + shift) * 2.0**output.frac, output.qmin, output.qmax)
    # A mean in sixteenths of a unit, gains of 14 bits.
    most = 0.5 + 2.0**output.frac * (2 / 32 / spread + 2.0**-14 * 6)
    assert np.abs(stored - real).max() <= most


def test_a_row_without_differences_is_its_offset() -> None:
    constants = RowConstants.of(np.ones(4), np.full(4, 0.25), 0.0, 1.0, 2.0**-8)
    op = NormalizeRows(
        **COMMON,
        inputs=("x",),
        epsilon=constants.epsilon,
        gain=constants.gain,
        offset=constants.offset,
        shift=constants.shift,
        clip_min=-128,
        clip_max=127,
    )
    assert op.compute([np.full((2, 4), 5)], {}).tolist() == [[64] * 4] * 2


def test_halves_of_normalised_rows_are_rounded_up() -> None:
    """A row without differences leaves the offsets, here eighths of a unit: 3.375, 3.5, 4.5, -3.5, -3.625."""
    op = NormalizeRows(
        **COMMON,
        inputs=("x",),
        epsilon=1,
        gain=np.ones(5, np.int64),
        offset=np.array([27, 28, 36, -28, -29]),
        shift=3,
        clip_min=-128,
        clip_max=127,
    )
    assert op.compute([np.full((1, 5), 7)], {}).tolist() == [[3, 4, 5, -3, -4]]


def test_products_of_matrices() -> None:
    random = np.random.default_rng(3)
    a, b = random.integers(-99, 99, (2, 3, 4)), random.integers(-99, 99, (2, 4, 5))
    op = MatMul(**COMMON, inputs=("a", "b"), stage=OutputStage(3, -32768, 32767), accumulator="int32")
    tensors = {"a": Tensor("a", a.shape, Fixed(16, 0)), "y": Tensor("y", (2, 3, 5), Fixed(16, 0))}
    stored = op.compute([a, b], tensors)
    plain = [
        [[sum(int(m[i, k]) * int(n[k, j]) for k in range(4)) for j in range(5)] for i in range(3)]
        for m, n in zip(a, b, strict=True)
    ]
    assert stored.tolist() == [[[(v + 4) >> 3 for v in row] for row in matrix] for matrix in plain]
    assert op.multiply_accumulates(tensors) == 2 * 3 * 5 * 4
