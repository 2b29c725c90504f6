"""Affine integers, by the C of ANSI C. Every operator ends in one rounding: a sum of products of integers, times a
multiplier, over a power of two, to the nearest integer, plus the zero point, within the bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.all_inputs.case import (
    Arithmetic,
    Case,
    Values,
    all_of,
    clamp,
    exact,
    io,
    nearest,
    normalized,
    pairs,
    side_by_side,
    three,
)
from nnkit.program import Window
from nnkit.program.affine import (
    AffineActivation,
    AffineAdd,
    AffineConcat,
    AffineConv,
    AffineLookup,
    AffineMatMul,
    AffineMul,
    AffineNormalizeRows,
    AffinePool,
    AffineProgram,
    AffineSoftmax,
    AffineTensor,
    Requantize,
)
from nnkit.program.formats import Affine
from nnkit.quantize.affine.accumulators import sum_accumulator
from nnkit.quantize.affine.multipliers import multiplier_and_shift
from nnkit.quantize.row_constants import RowConstants

SIGNED = Affine(8, (0.05,), (-7,), signed=True)
UNSIGNED = Affine(8, (0.03,), (131,))
WIDE = Affine(16, (0.0002,), (0,), signed=True)
A, B = pairs(-128, 127)
C, D = pairs(0, 255)
BESIDE = Window(1, 2, 1, 2)
POINT = Window(1, 1)
_case = Arithmetic("ansi_c", AffineProgram, AffineTensor).case


def cases() -> Iterator[Case]:
    """Every kernel of affine integers that computes."""
    yield from _sums_and_products()
    yield from _one_operand()
    yield from _convolutions()
    yield from _rows()


def _stage(factor: float, form: Affine, negative: float | None = None) -> Requantize:
    multiplier, shift = multiplier_and_shift(factor)
    slope = None if negative is None else np.array([round(multiplier * negative)], np.int64)
    return Requantize(np.array([multiplier]), np.array([shift]), form.qmin + 2, form.qmax - 5, slope)


def _stored(sums: Values, stage: Requantize, form: Affine) -> Values:
    multiplier = np.full(sums.shape, int(stage.multiplier[0]), object)
    if stage.negative_multiplier is not None:
        multiplier = np.where(sums < 0, int(stage.negative_multiplier[0]), multiplier)
    rounded = nearest(exact(sums) * multiplier, 1 << int(stage.shift[0]))
    return clamp(rounded + form.zero_point[0], stage.clip_min, stage.clip_max)


def _sums_and_products() -> Iterator[Case]:
    given = [(A, SIGNED), (D, UNSIGNED)]
    first, second = exact(A) + 7, exact(D) - 131
    for form in (SIGNED, UNSIGNED, WIDE):
        top = 1 << (form.bits - 8)
        factors, shift = (int(0.7 * 2**19) * top, 2**19 * top), 20
        bits = 8 if form.bits == 8 else 16
        if bits == 8:
            stage = Requantize(np.array([1]), np.array([shift]), form.qmin, form.qmax - 3)
            op = AffineAdd(**io(2), multipliers=factors, requantize=stage)
            sums = first * factors[0] + second * factors[1]
            yield _case(f"add to {form}", op, given, (_stored(sums, stage, form), form))
        stage = _stage(0.008 * top, form)
        op = AffineMul(**io(2), requantize=stage)
        yield _case(f"mul to {form}", op, given, (_stored(first * second, stage, form), form))
    column, row = np.arange(-128, 128)[:, None], np.arange(256)[None]
    stage = _stage(0.008, SIGNED)
    op = AffineMatMul(**io(2), requantize=stage, accumulator=sum_accumulator(135 * 131))
    sums = (exact(column) + 7) * (exact(row) - 131)
    wanted = _stored(sums, stage, SIGNED)
    yield _case("matmul [256, 1] [1, 256]", op, [(column, SIGNED), (row, UNSIGNED)], (wanted, SIGNED))


def _one_operand() -> Iterator[Case]:
    every = all_of(-32768, 32767)
    for negative in (None, 0.1, -0.3):
        for form, factor in ((WIDE, 0.9), (SIGNED, 0.004)):
            stage = _stage(factor, form, negative)
            op = AffineActivation(**io(), requantize=stage)
            wanted = _stored(exact(every), stage, form)
            yield _case(f"activation to {form}, slope {negative}", op, [(every, WIDE)], (wanted, form))
    table = np.random.default_rng(0).integers(-128, 128, 256)
    small = all_of(-128, 127).reshape(1, 16, 16)
    op = AffineLookup(**io(), table=table, function="Tanh")
    yield _case("lookup, 8 bits", op, [(small, SIGNED)], (table.reshape(1, 16, 16), SIGNED), inputs=256)
    stage = _stage(1.3, SIGNED)
    op = AffineConcat(**io(), requantize=(stage,))
    yield _case("concat to another format", op, [(C, UNSIGNED)], (_stored(exact(C) - 131, stage, SIGNED), SIGNED))
    op = AffinePool(**io(), pool="max", window=BESIDE)
    yield _case("max pool of two", op, [(side_by_side(A, B), SIGNED)], (np.maximum(A, B), SIGNED))
    for form in (SIGNED, UNSIGNED):
        stage = _stage(0.61, form)
        op = AffinePool(**io(), pool="average", window=BESIDE, requantize=stage, count_include_pad=True)
        wanted = _stored(exact(A) + exact(B) + 14, stage, form)
        yield _case(f"average pool of two to {form}", op, [(side_by_side(A, B), SIGNED)], (wanted, form))


def _conv(weight: Values, sums: Values, shape: tuple[int, ...], groups: int, window: Window) -> tuple[Any, Values]:
    """A convolution with biases 1, 2 ... and factors of its channels' own, and what it gives."""
    outputs = len(sums)
    most = [max(1, int(np.abs(each).max())) for each in sums]
    pairs_of = [multiplier_and_shift(150.0 / each) for each in most]
    stage = Requantize(*(np.array(each, np.int64) for each in zip(*pairs_of, strict=True)), -128, 127)
    wanted = [
        clamp(nearest((each + index + 1) * multiplier, 1 << shift) - 7, -128, 127)
        for index, (each, (multiplier, shift)) in enumerate(zip(sums, pairs_of, strict=True))
    ]
    op = AffineConv(
        **io(),
        weight=weight.reshape(shape).astype(np.int8),
        weight_format=Affine(8, (0.01,) * outputs, (0,) * outputs, 0, signed=True),
        bias=np.arange(1, outputs + 1, dtype=np.int32),
        window=window,
        groups=groups,
        pad_value=0,
        transposed=False,
        requantize=stage,
    )
    return op, np.stack(wanted)


def _convolutions() -> Iterator[Case]:
    for form, low in ((SIGNED, -128), (UNSIGNED, 0)):
        zero = form.zero_point[0]
        every = np.arange(low, low + 256).reshape(1, 16, 16)
        weights = np.arange(-127, 128)
        sums = (exact(every) - zero) * exact(weights)[:, None, None]
        op, wanted = _conv(weights, sums, (255, 1, 1, 1), 1, POINT)
        yield _case(f"conv2d of {form}, every weight", op, [(every, form)], (wanted, SIGNED))
        first, second = pairs(low, low + 255)
        a, b = exact(first), exact(second)
        weights = np.array([[127, 127], [-127, 127], [-127, -127], [1, 0], [-3, 5]])
        sums = np.stack([(a[0] - zero) * int(w) + (b[0] - zero) * int(v) for w, v in weights])
        op, wanted = _conv(weights, sums, (5, 1, 1, 2), 1, BESIDE)
        yield _case(f"conv2d of {form}, pairs", op, [(side_by_side(first, second), form)], (wanted, SIGNED))
        op, wanted = _conv(weights, sums, (5, 2, 1, 1), 1, POINT)
        yield _case(
            f"conv2d of {form}, two channels", op, [(np.concatenate([first, second]), form)], (wanted, SIGNED)
        )
        both = np.concatenate([side_by_side(first, second), side_by_side(second, first)])
        sums = np.stack([(a[0] - zero) * 127 - (b[0] - zero) * 128, (b[0] - zero) * -77 + (a[0] - zero) * 3])
        op, wanted = _conv(np.array([[127, -128], [-77, 3]]), sums, (2, 1, 1, 2), 2, BESIDE)
        yield _case(f"conv2d of {form}, a group a channel", op, [(both, form)], (wanted, SIGNED))


def _rows() -> Iterator[Case]:
    rows = np.stack([A[0], B[0]], axis=-1)
    out = Affine(8, (1 / 256,), (-128,), signed=True)
    source, result = AffineTensor("x0", rows.shape, SIGNED), AffineTensor("y", rows.shape, out)
    coarse, fine, numerator = AffineSoftmax.tables(source, result)
    op = AffineSoftmax(**io(), axis=2, coarse=coarse, fine=fine, numerator=numerator)
    share = 1 / (1 + np.exp((rows[..., ::-1] - rows) * 0.05))
    wanted = np.minimum(share * 256 - 128, 127)
    yield _case("softmax of two", op, [(rows, SIGNED)], (wanted, out), 0.5 + 1e-6)
    gain, offset = np.array([1.0, -0.5, 2.0]), np.array([0.1, 0.0, -0.4])
    constants = RowConstants.of(gain, offset, 1e-5, SIGNED.scale[0], SIGNED.scale[0])
    real = {"real_gain": gain, "real_offset": offset, "real_epsilon": 1e-5}
    op = AffineNormalizeRows(
        **io(),
        epsilon=constants.epsilon,
        gain=constants.gain,
        offset=constants.offset,
        shift=constants.shift,
        **real,
    )
    for third in (-128, 5, 127):
        rows = three(A, B, third)
        wanted, off_by = normalized(rows * 0.05, 0.05, 1e-5, gain / 0.05, offset / 0.05)
        wanted = clamp(wanted - 7, -128, 127)
        yield _case(f"normalised rows, third {third}", op, [(rows, SIGNED)], (wanted, SIGNED), off_by)
