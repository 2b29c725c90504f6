"""Power-of-two fixed point, by GAP8's C. A stored integer q of a format with f bits of fraction means q / 2^f: an
operator's result is the storable number nearest to the real result, which is what the cases here compute.
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
from nnkit.program import (
    Activation,
    Add,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Fixed,
    FusedPool,
    Leaky,
    Lookup,
    MatMul,
    Mul,
    NormalizeRows,
    OutputStage,
    Pool,
    Program,
    Softmax,
    Tensor,
    Window,
)
from nnkit.quantize.row_constants import RowConstants

S8, S16 = (Fixed(8, 4), Fixed(16, 10))
A, B = pairs(-128, 127)
ALL_16 = all_of(-32768, 32767)
BESIDE = Window(1, 2, 1, 2)
POINT = Window(1, 1)
_case = Arithmetic("gap8", Program, lambda name, shape, form: Tensor(name, shape, form, form.qmin, form.qmax)).case


def cases() -> Iterator[Case]:
    """Every kernel of fixed point that computes."""
    yield from _sums_and_products()
    yield from _activations()
    yield from _pools()
    yield from _convolutions()
    yield from _rows()


def _stored(numerator: Values, frac: int, form: Fixed, low: int | None = None, high: int | None = None) -> Values:
    """The number of `form` nearest to numerator / 2^frac, within the format and the clip."""
    up = max(form.frac - frac, 0)
    values = nearest(exact(numerator) << up, 1 << (frac + up - form.frac))
    values = clamp(values, form.qmin, form.qmax)
    return clamp(values, form.qmin if low is None else low, form.qmax if high is None else high)


def _sums_and_products() -> Iterator[Case]:
    first, second, result, above = Fixed(8, 4), Fixed(8, 6), Fixed(8, 5), Fixed(8, 4, signed=False)
    given = [(A, first), (B, second)]
    for form, low, high in ((result, -128, 127), (result, -128, 77), (above, 0, 200)):
        total = (exact(A) << 2) + exact(B)
        op = Add(**io(2), shifts=(2, 0), stage=OutputStage(6 - form.frac, low, high))
        yield _case(f"add to {form}, {low} to {high}", op, given, (_stored(total, 6, form, low, high), form))
        op = Mul(**io(2), stage=OutputStage(10 - form.frac, low, high))
        product = exact(A) * exact(B)
        yield _case(f"mul to {form}, {low} to {high}", op, given, (_stored(product, 10, form, low, high), form))
    column, row = np.arange(-128, 128)[:, None], np.arange(-128, 128)[None]
    op = MatMul(**io(2), stage=OutputStage(5, -128, 127))
    product = _stored(exact(column) * exact(row), 10, result)
    yield _case("matmul [256, 1] [1, 256]", op, [(column, first), (row, second)], (product, result))


def _activations() -> Iterator[Case]:
    for form, low, high in ((Fixed(16, 7), -32768, 32767), (Fixed(8, 4), -100, 96), (S16, 0, 6 << 10)):
        op = Activation(**io(), stage=OutputStage(10 - form.frac, low, high))
        wanted = _stored(ALL_16, 10, form, low, high)
        yield _case(f"activation {S16} to {form}, {low} to {high}", op, [(ALL_16, S16)], (wanted, form))
        op = Concat(**io(), shifts=(10 - form.frac,))
        yield _case(f"concat {S16} to {form}", op, [(ALL_16, S16)], (_stored(ALL_16, 10, form), form))
    for slope in (3277, -3277, 32767):
        leaky = OutputStage(3, -32768, 32767, Leaky(np.array([slope], np.int16), 15))
        positive = _stored(ALL_16, 10, Fixed(16, 7))
        sloped = clamp(nearest(positive * slope, 1 << 15), -32768, 32767)
        wanted = np.where(positive < 0, sloped, positive)
        op = Activation(**io(), stage=leaky)
        yield _case(f"leaky {slope} / 2^15", op, [(ALL_16, S16)], (wanted, Fixed(16, 7)))
    draw = np.random.default_rng(0)
    for bits, step_bits in ((8, 0), (16, 8), (16, 6)):
        x, form = (all_of(-128, 127), Fixed(8, 4)) if bits == 8 else (ALL_16, S16)
        x = x.reshape(1, 16, 16) if bits == 8 else x
        entries = ((1 << bits) >> step_bits) + (step_bits > 0)
        table = draw.integers(-(1 << (bits - 1)), 1 << (bits - 1), entries)
        # The straight line between two entries, rounded to the nearest number.
        place, ahead = np.divmod(x - form.qmin, 1 << step_bits)
        left, right = (exact(table)[np.minimum(place + k, entries - 1)] for k in (0, 1))
        line = nearest(left * ((1 << step_bits) - ahead) + right * ahead, 1 << step_bits)
        op = Lookup(**io(), table=table, least=form.qmin, step_bits=step_bits, clip_min=form.qmin, clip_max=form.qmax)
        name = f"lookup, {bits} bits, {1 << step_bits} inputs an entry"
        yield _case(name, op, [(x, form)], (line, form), inputs=1 << bits)


def _pools() -> Iterator[Case]:
    x = side_by_side(A, B)
    for kind, wanted in (("max", np.maximum(A, B)), ("average", nearest(exact(A) + exact(B), 2))):
        op = Pool(**io(), pool=kind, window=BESIDE, shift=int(kind == "average"), clip_min=-128, clip_max=127)  # type: ignore[arg-type]
        yield _case(f"{kind} pool of two", op, [(x, S8)], (wanted, S8))


def _conv(weight: Values, bits: int, kind: type, **fields: Any) -> Any:
    """A convolution whose weights have 3 bits of fraction and whose biases are 1, 2 ... in the sums' format."""
    bias = np.arange(1, fields.pop("outputs") + 1, dtype=np.int32)
    form = {"weight": weight.astype(np.int8 if bits == 8 else np.int16), "weight_bits": bits, "weight_frac": 3}
    return kind(**io(), **form, bias=bias, bias_frac=0, bias_shift=0, **fields)


def _convolutions() -> Iterator[Case]:
    for bits in (8, 16):
        most = (1 << (bits - 1)) - 1
        weights = np.array([[most, most], [-most, most], [-most, -most], [1, 0], [-3, 5]])
        columns = weights[:, None, None, :]
        for name, x, weight, window in (
            ("beside each other", side_by_side(A, B), columns, BESIDE),
            ("as channels", np.concatenate([A, B]), weights[:, :, None, None], POINT),
        ):
            for shift in (0, 3 + bits // 2):
                form = Fixed(16, 7 - shift)
                stage = OutputStage(shift, -32768, 32767)
                sums = np.stack([exact(A[0]) * int(w) + exact(B[0]) * int(v) for w, v in weights])
                sums += np.arange(1, 6).astype(object)[:, None, None]
                op = _conv(weight, bits, Conv2d, outputs=5, window=window, stage=stage)
                wanted = _stored(sums, 7, form)
                yield _case(f"conv2d, {bits}-bit weights, pairs {name}, shift {shift}", op, [(x, S8)], (wanted, form))
    yield from _other_convolutions()


def _other_convolutions() -> Iterator[Case]:
    form, stage = Fixed(16, 2), OutputStage(5, -32768, 32767)
    both = np.concatenate([side_by_side(A, B), side_by_side(B, A)])
    weights = [[127, -128], [-77, 3]]
    sums = np.stack([exact(A[0]) * 127 - exact(B[0]) * 128 + 1, exact(B[0]) * -77 + exact(A[0]) * 3 + 2])
    op = _conv(np.array(weights)[:, None, None, :], 8, Conv2d, outputs=2, window=BESIDE, stage=stage, groups=2)
    yield _case("conv2d, a group a channel, pairs", op, [(both, S8)], (_stored(sums, 7, form), form))
    pool = FusedPool("max", BESIDE)
    one = exact(side_by_side(A, B)[0])
    sums = np.stack([one * weight + index + 1 for index, weight in enumerate((127, -128, 55))])
    stored = _stored(sums, 7, form)
    op = _conv(
        np.array([127, -128, 55]).reshape(3, 1, 1, 1), 8, Conv2d, outputs=3, window=POINT, stage=stage, pool=pool
    )
    wanted = np.maximum(stored[:, :, ::2], stored[:, :, 1::2])
    yield _case("conv2d with a maximum of pairs", op, [(side_by_side(A, B), S8)], (wanted, form))
    factors = (32767, -32768, 1, -1, 12345)
    sums = np.stack([exact(ALL_16[0]) * factor + index + 1 for index, factor in enumerate(factors)])
    form, stage = Fixed(16, -3), OutputStage(16, -32768, 32767)
    wide = np.array(factors).reshape(5, 1, 1, 1)
    op = _conv(wide, 16, Conv2d, outputs=5, window=POINT, stage=stage)
    yield _case("conv2d, 16 bits, one input", op, [(ALL_16, S16)], (_stored(sums, 13, form), form))
    op = _conv(wide.reshape(1, 5, 1, 1), 16, ConvTranspose2d, outputs=5, window=POINT, stage=stage)
    yield _case("transposed conv, 16 bits, one input", op, [(ALL_16, S16)], (_stored(sums, 13, form), form))


def _rows() -> Iterator[Case]:
    rows = np.stack([A[0], B[0]], axis=-1)
    for form in (Fixed(8, 7), Fixed(16, 15)):
        share = 1 / (1 + np.exp((rows[..., ::-1] - rows) / 16.0))
        coarse, fine = Softmax.tables(8, 4)
        op = Softmax(**io(), axis=2, coarse=coarse, fine=fine, frac=form.frac, clip_min=form.qmin, clip_max=form.qmax)
        wanted = np.minimum(share * 2.0**form.frac, form.qmax)
        # The exponentials are off by 2.5 units in 2^16, and a quotient of sums of at least 2^16 by one more half.
        yield _case(
            f"softmax of two to {form}", op, [(rows, S8)], (wanted, form), 0.5 + 2.0**form.frac * 3 / (1 << 16)
        )
    gain, offset = np.array([1.0, -0.5, 2.0]), np.array([0.1, 0.0, -0.4])
    constants = RowConstants.of(gain, offset, 1e-5, 1 / 16, 1 / 16)
    form = {
        "epsilon": constants.epsilon,
        "gain": constants.gain,
        "offset": constants.offset,
        "shift": constants.shift,
    }
    norm = NormalizeRows(**io(), **form, clip_min=-128, clip_max=127)
    for third in (-128, 5, 127):
        rows = three(A, B, third)
        real, off_by = normalized(rows / 16.0, 1 / 16, 1e-5, 16 * gain, 16 * offset)
        yield _case(f"normalised rows, third {third}", norm, [(rows, S8)], (clamp(real, -128, 127), S8), off_by)
