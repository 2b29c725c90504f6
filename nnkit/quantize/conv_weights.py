"""Weights and bias of a convolution in fixed point, with the proof of its accumulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError, ModelError, RecipeError
from nnkit.program import Conv2d, ConvTranspose2d, Fixed, FusedPool, Leaky, OutputStage, Tensor
from nnkit.program.ops import Accumulator, Proof
from nnkit.quantize.integer_bits import MAX_FRAC, MIN_FRAC, fraction_bits
from nnkit.quantize.layers import FloatArray, FloatLayer
from nnkit.quantize.proof import Bound, running_bound, wide_bound
from nnkit.quantize.scheme import FixedPointScheme

_MAX_SHIFT = 30
_RUNNING_MAX_SHIFT = 15  # beyond it (plane << shift) alone leaves 32 bits


@dataclass(frozen=True, eq=False)
class Weights:
    """Integer weights and bias. bits_lost: fraction bits given up so that the accumulator is proven."""

    weight: NDArray[Any]
    bits: int
    frac: int
    bias: NDArray[np.int32]
    bias_frac: int
    bias_shift: int
    shift: int
    bound: Bound
    bits_lost: int


def choose_weights(layer: FloatLayer, tensors: dict[str, Tensor], scheme: FixedPointScheme) -> Weights:
    """The finest weight fraction whose accumulator is proven for the formats around the layer.

    When even the output's fraction exceeds input + weight fraction, shift is 0 and the caller must coarsen the
    output (see `settle_layer`). Raises ModelError where no fraction can be proven.
    """
    weight, bias = _arrays(layer)
    source, output = tensors[layer.inputs[0]], tensors[layer.output]
    bits = 16 if layer.tags.hp else scheme.bits
    finest = fraction_bits(float(weight.min(initial=0.0)), float(weight.max(initial=0.0)), bits, True)
    limit = _RUNNING_MAX_SHIFT if runs(layer, scheme) else _MAX_SHIFT
    start = min(finest, output.fixed.frac - source.fixed.frac + limit, MAX_FRAC)
    for frac in range(start, MIN_FRAC - 1, -1):
        found = _at(layer, weight, bias, source, output, bits, frac, scheme)
        if found is not None:
            return Weights(*found, bits_lost=finest - frac)
    raise ModelError(
        "no weight format keeps its 32-bit accumulator from overflowing",
        where=layer.name,
        remedy="set `accumulator_bits: 64`, or normalise this layer's weights",
    )


def runs(layer: FloatLayer, scheme: FixedPointScheme) -> bool:
    """Whether the layer accumulates by the `running` semantics (transposed convolutions have no such kernel)."""
    return scheme.accumulate == "running" and layer.kind == "conv2d"


def _arrays(layer: FloatLayer) -> tuple[FloatArray, FloatArray]:
    if layer.weight is None or layer.bias is None:
        raise InternalError("a convolution without weights", where=layer.name)
    if not (np.isfinite(layer.weight).all() and np.isfinite(layer.bias).all()):
        raise ModelError(
            "its weights hold NaN or infinity",
            where=layer.name,
            remedy="re-export the network from a good checkpoint",
        )
    return layer.weight, layer.bias


def _at(
    layer: FloatLayer,
    weight: FloatArray,
    bias: FloatArray,
    source: Tensor,
    output: Tensor,
    bits: int,
    frac: int,
    scheme: FixedPointScheme,
) -> tuple[NDArray[Any], int, int, NDArray[np.int32], int, int, int, Bound] | None:
    """Weights at one fraction, or None where the proof fails."""
    accumulator_frac = source.fixed.frac + frac
    shift = max(0, accumulator_frac - output.fixed.frac)
    form = Fixed(bits, frac)
    integers = form.quantize(weight)
    if runs(layer, scheme):
        bias_frac, bias_shift = min(output.fixed.frac, accumulator_frac), 0
        bias_q = Fixed(16, bias_frac).quantize(bias)
    else:
        # At the accumulator's own fraction the bias costs no precision and needs no shift.
        bias_frac, bias_shift = accumulator_frac, 0
        bias_q = np.floor(bias * 2.0**bias_frac + 0.5).astype(np.int64)
        if int(np.abs(bias_q).max(initial=0)) >= 1 << 31:
            return None
    bound = accumulator_bound(layer, integers, bias_q, source, output, bias_shift, shift, scheme)
    if scheme.accumulator_bits == 32 and not bound.fits_int32:
        return None
    return integers.astype(form.dtype), bits, frac, bias_q.astype(np.int32), bias_frac, bias_shift, shift, bound


def accumulator_bound(
    layer: FloatLayer,
    integers: NDArray[Any],
    bias: NDArray[Any],
    source: Tensor,
    output: Tensor,
    bias_shift: int,
    shift: int,
    scheme: FixedPointScheme,
) -> Bound:
    """The proof's bound for one layer's integers, under the scheme's accumulation."""
    pad = _pad_integer(layer, source)
    low, high = min(source.low, pad), max(source.high, pad)
    if runs(layer, scheme):
        return running_bound(integers, low, high, shift, output.fixed.bits)
    if layer.kind == "conv_transpose2d":
        # [I, O/g, kh, kw] -> [O, I/g, kh, kw]; taking every tap together bounds each output position from above.
        groups = layer.groups
        per_in, per_out = integers.shape[0] // groups, integers.shape[1]
        split = integers.reshape(groups, per_in, per_out, *integers.shape[2:])
        integers = split.transpose(0, 2, 1, 3, 4).reshape(groups * per_out, per_in, *integers.shape[2:])
    return wide_bound(integers, bias, low, high, bias_shift, shift)


def _pad_integer(layer: FloatLayer, source: Tensor) -> int:
    return source.fixed.quantize_scalar(layer.pad_value)


def pinned_weights(layer: FloatLayer, tensors: dict[str, Tensor], scheme: FixedPointScheme) -> Weights:
    """Weights at the pinned fractions, proven or not. Raises RecipeError where the pins contradict the graph."""
    if scheme.pinned is None:
        raise InternalError("no pinned formats", where=layer.name)
    pins = scheme.pinned.of((layer.name, *layer.tags.origins))
    weight, bias = _arrays(layer)
    source, output = tensors[layer.inputs[0]], tensors[layer.output]
    if pins.input_frac != source.fixed.frac:
        raise RecipeError(
            f"input_frac is {pins.input_frac}, but {layer.inputs[0]!r} has {source.fixed.frac} fraction bits",
            where=f"{scheme.pinned.source}: {layer.name}",
            remedy="make the producer's output_frac and this input_frac equal",
        )
    form = Fixed(scheme.pinned.bits, pins.weight_frac)
    integers = form.quantize(weight)
    bias_q = Fixed(scheme.pinned.bits, pins.bias_frac).quantize(bias)
    bias_shift = 0 if runs(layer, scheme) else pins.input_frac + pins.weight_frac - pins.bias_frac
    if bias_shift < 0:
        raise RecipeError(
            f"bias_frac {pins.bias_frac} exceeds input_frac + weight_frac",
            where=f"{scheme.pinned.source}: {layer.name}",
            remedy="a bias cannot be finer than the accumulator it is added to",
        )
    if runs(layer, scheme) and pins.bias_frac != pins.output_frac:
        raise RecipeError(
            f"bias_frac is {pins.bias_frac}, output_frac is {pins.output_frac}; `running` starts from the bias",
            where=f"{scheme.pinned.source}: {layer.name}",
            remedy="make them equal, or use `accumulate: wide`",
        )
    bound = accumulator_bound(layer, integers, bias_q, source, output, bias_shift, pins.norm, scheme)
    return Weights(
        integers.astype(form.dtype),
        form.bits,
        pins.weight_frac,
        bias_q.astype(np.int32),
        pins.bias_frac,
        bias_shift,
        pins.norm,
        bound,
        0,
    )


def build_conv(
    layer: FloatLayer,
    tensors: dict[str, Tensor],
    scheme: FixedPointScheme,
    common: dict[str, Any],
    pool: FusedPool | None,
    leaky: Leaky | None,
) -> Conv2d | ConvTranspose2d:
    """The op, with its proof: `proven`, or for pinned formats that cannot be, `pinned_unproven` and by how much."""
    if layer.window is None:
        raise InternalError("a convolution without a window", where=layer.name)
    pinned = scheme.pinned is not None
    weights = pinned_weights(layer, tensors, scheme) if pinned else choose_weights(layer, tensors, scheme)
    output = tensors[layer.output]
    running = runs(layer, scheme)
    accumulator: Accumulator = "running16" if running else ("int64" if scheme.accumulator_bits == 64 else "int32")
    proven: Proof = "proven"
    note = ""
    if not weights.bound.fits_int32 and accumulator != "int64":
        proven = "pinned_unproven"
        note = f"the bound exceeds 32 bits by {weights.bound.excess_bits:.2f} bits"
    fields: dict[str, Any] = {
        **common,
        "weight": weights.weight,
        "weight_bits": weights.bits,
        "weight_frac": weights.frac,
        "bias": weights.bias,
        "bias_frac": weights.bias_frac,
        "bias_shift": weights.bias_shift,
        "window": layer.window,
        "stage": OutputStage(weights.shift, output.low, output.high, leaky),
        "groups": layer.groups,
        "accumulator": accumulator,
        "proof": proven,
        "proof_note": note,
        "bits_lost": float(weights.bits_lost),
    }
    if layer.kind == "conv_transpose2d":
        return ConvTranspose2d(**fields)
    pad_value = _pad_integer(layer, tensors[layer.inputs[0]])
    return Conv2d(**fields, pad_value=pad_value, accumulate=scheme.accumulate, pool=pool)
