"""The compiler's INT8 arithmetic: thresholds to scales, scales to multiplier and shift, weights to integers.

A prediction, made without the compiler; `mlir_reader.py` compares it with what the compiler wrote. Rules (symmetric
quantisation, as observed of and documented for the vendor's compiler):

* A tensor whose calibrated minimum is not below 0 is unsigned with scale threshold / 255, any other signed with
  threshold / 127. The cv18xx have signed tensors only.
* A real factor f becomes m * 2**-n: of the n from -32 (or 0) to 30 the first with the least error |m * 2**-n - f|
  in float32, m = round half away(f * 2**n) below 2**31 - 1 (32 bits) or 127 (8 bits).
* Convolutions: weights per output channel, scale max|w| / 127, unless all are whole multiples of 1, 1/2 ... or 1/64
  that fit 8 bits, which is their scale then; bias int32 in units of input scale * weight scale;
  factor input scale * weight scale / output scale in 32 bits. Matrix products: the same with one weight scale.
* Averages, products and operands of sums: factors in 8 bits.
* A constant operand of several numbers: 8 bits for its largest magnitude.
* (acc * m + 2**(n-1)) >> n: half up; transposed convolutions: half away from zero.
* Pixels become the input's integers by a table a channel, rounded half up.

The cv18xx differ: a convolution's factor, computed in float32, is m * 2**-(31 + n) with m in 2**30 .. 2**31, applied
in two steps; sums share a shift, the largest that keeps the larger multiplier below 127; multipliers are cut off.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nnkit.program.formats import Affine, Pixels
from nnkit.quantize.functions import Function
from nnkit_tpu.integer_parameters import IntegerWeights, Requant, Rounding
from nnkit_tpu.program import FloatArray, TpuActivation

_HIGHEST_SHIFT = 30
_LOWEST_SHIFT = -32
_LIMITS = {32: 2**31 - 1, 8: 127}
LEAST_INPUT_SCALE = 1e-5
"""The compiler for the BM chips takes a scale of its own instead of one up to this for a convolution's input."""


def round_half_away(values: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """To the nearest integer, half away from zero (C's `round`)."""
    array = np.asarray(values, np.float64)
    whole = np.trunc(array)
    return np.asarray(whole + np.copysign(np.abs(array - whole) >= 0.5, array), np.float64)


def multiplier_and_shift(
    factors: NDArray[np.float64] | float, bits: int, *, positive: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(multipliers, shifts) [N] of real factors [N]. positive: no shift below 0."""
    factor = np.atleast_1d(np.asarray(factors, np.float64)).astype(np.float32).astype(np.float64)
    shifts = np.arange(0 if positive else _LOWEST_SHIFT, _HIGHEST_SHIFT + 1)
    powers = np.ldexp(1.0, shifts)[:, np.newaxis]
    multipliers = round_half_away(factor * powers)
    errors = np.abs(multipliers / powers - factor).astype(np.float32)
    errors[np.abs(multipliers) >= _LIMITS[bits]] = np.inf
    best = errors.argmin(axis=0)  # the first of the least
    columns = np.arange(factor.size)
    held = errors[best, columns] < np.finfo(np.float32).max
    shift = np.where(held, shifts[best], 0)
    multiplier = np.where(held, multipliers[best, columns], round_half_away(factor))
    return multiplier.astype(np.int64), shift


def requant(
    factors: NDArray[np.float64] | float, bits: int, rounding: Rounding, *, positive: bool = False
) -> Requant:
    """The requantisation by real factors."""
    multiplier, shift = multiplier_and_shift(factors, bits, positive=positive)
    return Requant(multiplier, shift, rounding)


_MOST_SHIFT = 62  # 31, and 31 that the compiler states


def requant_in_two_steps(factors: NDArray[np.float64] | float) -> Requant:
    """The cv18xx requantisation by real factors below 1; factors below 2^-32 are 0."""
    mantissa, exponent = np.frexp(np.atleast_1d(np.asarray(factors, np.float64)))
    multiplier, shift = round_half_away(mantissa * 2.0**31).astype(np.int64), 31 - exponent.astype(np.int64)
    kept = shift <= _MOST_SHIFT
    return Requant(np.where(kept, multiplier, 0), np.where(kept, shift, 31), "two_steps")


def joint_multipliers(factors: NDArray[np.float64]) -> tuple[tuple[int, ...], int]:
    """Multipliers of 7 bits with one shift for all, of the cv18xx."""
    shift = 0
    while shift < _HIGHEST_SHIFT and float(np.max(factors)) * 2.0 ** (shift + 1) < _LIMITS[8]:
        shift += 1
    return tuple(int(f * 2.0**shift) for f in factors), shift


def apply(stage: Requant, acc: NDArray[np.int64], axis: int = 1) -> NDArray[np.int64]:
    """acc * multiplier * 2**-shift, rounded; channels lie on `axis`. Exact: products stay below 2**63."""
    shape = [1] * acc.ndim
    if stage.multiplier.size > 1:
        shape[axis] = -1
    multiplier, shift = stage.multiplier.reshape(shape), stage.shift.reshape(shape)
    product = acc * multiplier
    left = np.maximum(-shift, 0)
    right = np.maximum(shift, 0)
    half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
    if stage.rounding == "half_away":
        return np.asarray(np.sign(product) * ((np.abs(product << left) + half) >> right))
    if stage.rounding == "half_up":
        return np.asarray(((product << left) + half) >> right)
    if stage.rounding == "down":
        return np.asarray((product << left) >> right)
    if stage.rounding == "two_steps":
        upper = (product + (np.int64(1) << 30)) >> 31
        rest = shift - 31
        half = np.where(rest > 0, np.int64(1) << np.maximum(rest - 1, 0), 0)
        return np.asarray(np.sign(upper) * ((np.abs(upper) + half) >> rest))
    scaled = (product << left).astype(np.float64) * np.exp2(-right.astype(np.float64))
    return np.rint(scaled).astype(np.int64)


def convolution_weights(
    weight: FloatArray,
    bias: FloatArray | None,
    source: Affine,
    result: Affine,
    *,
    rounding: Rounding,
    per_channel: bool = True,
    channel_axis: int = 0,
    keeps_whole: bool = False,
) -> IntegerWeights:
    """Integer weights of a convolution or a matrix product (`per_channel` false, outputs on `channel_axis`).

    rounding: `two_steps` for the cv18xx. keeps_whole: of a convolution: weights that are whole numbers already stay
        as they are, and an input of next to nothing has a scale made up.
    """
    channels = weight.shape[channel_axis]
    rows = np.moveaxis(weight, channel_axis, 0).reshape(channels, -1)
    if rounding == "two_steps":
        return _two_step_weights(weight, bias, source, result, per_channel, channel_axis)
    signed = bias is not None or not per_channel or bool(np.min(weight, initial=0.0) < 0)
    most = 127.0 if signed else 255.0
    whole = _scale_of_whole_weights(weight, signed) if keeps_whole else None
    if whole is not None:
        scales = np.full(channels, whole)
    elif per_channel:
        largest = np.abs(rows).max(axis=1, initial=0.0).astype(np.float32)
        scales = np.maximum(largest / np.float32(most), np.float32(1e-5)).astype(np.float64)
    else:
        scales = np.full(channels, float(np.abs(rows).max(initial=0.0)) / most)
    divided = rows.astype(np.float64) / scales[:, None]
    integers = np.clip(round_half_away(divided), -128 if signed else 0, 127 if signed else 255)
    stored = np.moveaxis(integers.reshape(np.moveaxis(weight, channel_axis, 0).shape), 0, channel_axis)
    input_scale, output_scale = source.scale[0], result.scale[0]
    if keeps_whole and input_scale <= LEAST_INPUT_SCALE:
        input_scale = _scale_of_a_dead_input(weight, bias)
    offsets = None
    if bias is not None:
        real = round_half_away(bias.astype(np.float64) / (scales * input_scale))
        offsets = np.clip(real, -(2.0**31), 2.0**31 - 1).astype(np.int32)
    factors = scales * input_scale / output_scale
    stage = requant(factors if per_channel else factors[:1], 32, rounding)
    return IntegerWeights(np.ascontiguousarray(stored).astype(np.int16), offsets, stage)


def _scale_of_a_dead_input(weight: FloatArray, bias: FloatArray | None) -> float:
    """What the compiler takes instead of a scale of up to `LEAST_INPUT_SCALE`, so that biases fit 32 bits."""
    largest = 0.0 if bias is None else float(np.abs(bias.astype(np.float32)).max(initial=0.0))
    return (largest if largest > LEAST_INPUT_SCALE else float(np.abs(weight).max(initial=0.0))) / 127.0


def _scale_of_whole_weights(weight: FloatArray, signed: bool) -> float | None:
    """The largest of 1, 1/2 ... 1/64 of which all weights are multiples that fit 8 bits; None where none is."""
    low, high = (-128.0, 127.0) if signed else (0.0, 255.0)
    for times in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0):
        scaled = weight * np.float32(times)
        if np.array_equal(scaled, np.trunc(scaled)) and low <= scaled.min() and scaled.max() <= high:
            return 1.0 / times
    return None


_LARGEST_BIAS = 0.998 * (2**31 - 1)
_LARGEST_FACTOR = 0.999999


def _two_step_weights(
    weight: FloatArray,
    bias: FloatArray | None,
    source: Affine,
    result: Affine,
    per_channel: bool,
    channel_axis: int,
) -> IntegerWeights:
    """Weights of the cv18xx: the factor is rounded first, and weights and biases are divided by what it came to.

    A convolution's factor is so large that its bias stays within 0.998 of 32 bits, as where its weights are zeros. No
    factor is above 0.999999: where large weights cancel out, they are cut.
    """
    moved = np.moveaxis(weight, channel_axis, 0)
    rows = moved.reshape(moved.shape[0], -1)
    largest = np.abs(rows).max(axis=1 if per_channel else None, initial=0.0).astype(np.float32)
    thresholds = np.float32(source.scale[0] * 127.0), np.float32(result.scale[0] * 127.0)
    single = np.atleast_1d(largest * thresholds[0] / (np.float32(127.0) * thresholds[1]))
    least = np.full(single.shape, 2.0**-60)
    if bias is not None and per_channel:
        of_biases = (np.abs(bias.astype(np.float32)) * np.float32(127.0)).astype(np.float64)
        least = np.maximum(least, of_biases / (_LARGEST_BIAS * float(thresholds[1])))
    stage = requant_in_two_steps(np.clip(single.astype(np.float64), least, _LARGEST_FACTOR))
    factors = stage.multiplier * np.exp2(-stage.shift.astype(np.float64)) * np.ones(moved.shape[0])
    factors[factors == 0] = np.inf  # weights and biases of which nothing is left
    ratio = float(np.float32(thresholds[0] / thresholds[1]))
    divided = rows.astype(np.float32) * (ratio / factors).astype(np.float32)[:, None]
    stored = np.moveaxis(np.clip(np.rint(divided), -128, 127).reshape(moved.shape), 0, channel_axis)
    offsets = None
    if bias is not None:
        per_unit = (float(np.float32(127.0) / thresholds[1]) / factors).astype(np.float32)
        real = np.rint(bias.astype(np.float32) * per_unit).astype(np.float64)
        offsets = np.clip(real, -(2.0**31), 2.0**31 - 1).astype(np.int32)
    return IntegerWeights(np.ascontiguousarray(stored).astype(np.int16), offsets, stage)


def activation_table(op: TpuActivation, source: Affine, result: Affine) -> NDArray[np.int64]:
    """[256] results by stored byte: index q (unsigned), or q modulo 256 (signed)."""
    stored = np.arange(256)
    if source.signed:
        stored = np.where(stored < 128, stored, stored - 256)
    real = activation(op)(source.dequantize(stored))
    whole = round_half_away(real / result.scale[0]) + result.zero_point[0]
    return np.clip(whole, result.qmin, result.qmax).astype(np.int64)


def pixel_tables(source: Pixels, target: Affine) -> NDArray[np.int64]:
    """[C, 256]: the integer that the compiler's table has for every pixel of each channel."""
    scale = np.array(source.scale)[:, np.newaxis] / target.scale[0]
    offset = -np.array(source.mean)[:, np.newaxis] * scale
    values = np.arange(source.qmax + 1, dtype=np.float64) * scale + offset
    return np.clip(np.floor(values + 0.5), target.qmin, target.qmax).astype(np.int64)


def activation(op: TpuActivation) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """The real function of an elementwise activation (no slopes per channel)."""
    alpha, beta = op.alpha, op.beta
    low, high = op.bounds
    slope = float(op.slopes[0]) if op.slopes is not None else 0.0
    functions: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
        "relu": lambda x: np.clip(x, 0.0, high),
        "clip": lambda x: np.clip(x, low, high),
        "leaky_relu": lambda x: np.where(x < 0, x * slope, x),
        "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
        "silu": lambda x: x / (1.0 + np.exp(-x)),
        "hard_sigmoid": lambda x: np.clip(alpha * x + beta, 0.0, 1.0),
        "hard_swish": lambda x: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0),
        "tanh": np.tanh,
        "exp": np.exp,
        "abs": np.abs,
        "sqrt": lambda x: np.sqrt(np.maximum(x, 0.0)),
        "gelu": Function("Gelu", 0.0).values,
        "gelu_by_tanh": Function("Gelu", 1.0).values,
        "erf": Function("Erf").values,
        "elu": Function("Elu", alpha).values,
        "softplus": Function("Softplus").values,
        "mish": Function("Mish").values,
        "log": lambda x: np.maximum(Function("Log").values(x), -1e30),
    }
    return functions[op.function]


def constant_format(constant: NDArray[np.float32], *, factor: bool) -> Affine:
    """The format of a constant operand: 8 bits for its largest magnitude, unsigned where nothing is negative.

    factor: of a product, whose scale the compiler divides in float32; otherwise a summand.
    """
    signed = bool(np.any(constant < 0))
    limit, most = np.abs(constant).max() or np.float32(1.0), np.float32(127.0 if signed else 255.0)
    scale = float(np.float32(limit) / most) if factor else float(limit) / float(most)
    return Affine(8, (scale,), (0,), signed=signed)


def stored_constant(constant: NDArray[np.float32], *, factor: bool) -> NDArray[np.int64]:
    """A constant operand in its own format, halves away from zero.

    Factors are divided by the scale; summands multiplied by the largest integer first and divided by their largest.
    """
    stored, real = constant_format(constant, factor=factor), constant.astype(np.float64)
    if factor:
        return round_half_away(real / stored.scale[0]).astype(np.int64)
    limit = float(np.abs(constant).max()) or 1.0
    return round_half_away(real * stored.qmax / limit).astype(np.int64)
