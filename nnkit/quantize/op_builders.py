"""Builders: one float layer and the formats around it -> one op of the Program."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnkit.errors import InternalError, ModelError
from nnkit.program import (
    Activation,
    Add,
    Concat,
    Fixed,
    FusedPool,
    Leaky,
    Mul,
    Op,
    OutputStage,
    Pad,
    Pool,
    Reshape,
    Tensor,
    Upsample,
)
from nnkit.quantize.conv_weights import build_conv, choose_weights
from nnkit.quantize.formats import FormatTable
from nnkit.quantize.layers import FloatActivation, FloatLayer, FloatPool
from nnkit.quantize.scheme import FixedPointScheme

_MAX_ALIGN_SHIFT = 14  # (16-bit value << 14) twice still fits 32 bits


def settle_layer(
    layer: FloatLayer, formats: FormatTable, tensors: dict[str, Tensor], scheme: FixedPointScheme
) -> bool:
    """Make formats coarser where this layer's arithmetic needs it. Returns whether any changed."""
    sources = [tensors[name].fixed for name in layer.inputs]
    if layer.kind in ("conv2d", "conv_transpose2d"):
        if scheme.pinned is not None:
            return False
        weights = choose_weights(layer, tensors, scheme)
        return formats.lower_frac(layer.output, sources[0].frac + weights.frac)
    if layer.kind == "add":
        changed = False
        finest, coarsest = max(s.frac for s in sources), min(s.frac for s in sources)
        if finest - coarsest > _MAX_ALIGN_SHIFT:
            for name, source in zip(layer.inputs, sources, strict=True):
                if source.frac > coarsest + _MAX_ALIGN_SHIFT:
                    changed |= formats.lower_frac(name, coarsest + _MAX_ALIGN_SHIFT)
            return changed
        return formats.lower_frac(layer.output, finest)
    if layer.kind == "mul":
        return formats.lower_frac(layer.output, sources[0].frac + sources[1].frac)
    if layer.kind == "activation":
        return formats.lower_frac(layer.output, sources[0].frac)
    if layer.kind == "concat":
        return formats.lower_frac(layer.output, min(s.frac for s in sources))
    if layer.kind == "average_pool":
        pool = _required(layer.pool, layer)
        _, base = average_multiplier(pool.window.kernel_h * pool.window.kernel_w)
        return formats.lower_frac(layer.output, sources[0].frac + base)
    return False


def build_op(layer: FloatLayer, tensors: dict[str, Tensor], scheme: FixedPointScheme) -> Op:
    """The op of one layer. Formats must be settled."""
    output = tensors[layer.output]
    sources = [tensors[name] for name in layer.inputs]
    common: dict[str, Any] = {
        "name": layer.name,
        "inputs": layer.inputs,
        "output": layer.output,
        "placement": "cpu" if layer.tags.cpu else "npu",
        "tags": tuple(tag for tag, on in (("hp", layer.tags.hp), ("cpu", layer.tags.cpu)) if on),
        "origins": layer.tags.origins,
    }
    match layer.kind:
        case "conv2d" | "conv_transpose2d":
            pool = fused_pool(layer.pool) if layer.pool is not None else None
            return build_conv(layer, tensors, scheme, common, pool, leaky_of(layer.activation))
        case "max_pool" | "average_pool":
            return _pool(layer, sources[0], output, scheme, common)
        case "add":
            finest = max(s.fixed.frac for s in sources)
            shifts = (finest - sources[0].fixed.frac, finest - sources[1].fixed.frac)
            stage = output_stage(output, finest - output.fixed.frac, layer.activation)
            return Add(**common, shifts=shifts, stage=stage, proof="proven")
        case "mul":
            shift = sources[0].fixed.frac + sources[1].fixed.frac - output.fixed.frac
            reach = max(abs(a * b) for a in _ends(sources[0]) for b in _ends(sources[1]))
            fits = reach + (1 << max(shift - 1, 0)) < (1 << 31)
            stage = output_stage(output, shift, layer.activation)
            return Mul(**common, stage=stage, proof="proven", accumulator="int32" if fits else "int64")
        case "activation":
            shift = sources[0].fixed.frac - output.fixed.frac
            return Activation(**common, stage=output_stage(output, shift, layer.activation), proof="proven")
        case "concat":
            return Concat(**common, shifts=tuple(s.fixed.frac - output.fixed.frac for s in sources))
        case "upsample":
            return Upsample(**common, scale_h=layer.scale_hw[0], scale_w=layer.scale_hw[1])
        case "pad":
            top, left, bottom, right = layer.pads
            value = output.fixed.quantize_scalar(layer.pad_value)
            return Pad(**common, top=top, left=left, bottom=bottom, right=right, value=value)
        case "reshape":
            return Reshape(**common)


def output_stage(output: Tensor, shift: int, activation: FloatActivation | None) -> OutputStage:
    """Shift, the output tensor's enforced range as the clip, and a leaky slope if there is one."""
    if shift < 0:
        raise InternalError(f"negative shift {shift} after the formats were settled", where=output.name)
    return OutputStage(shift, output.low, output.high, leaky_of(activation))


def leaky_of(activation: FloatActivation | None) -> Leaky | None:
    """Slopes as int16 with the largest common shift (at most 29, so that v * slope + rounding fits 32 bits)."""
    if activation is None or activation.slopes is None:
        return None
    extreme = float(np.abs(activation.slopes).max(initial=0.0))
    shift = 15
    while shift < 29 and extreme * 2.0 ** (shift + 1) < 32767.5:
        shift += 1
    while shift > 0 and extreme * 2.0**shift >= 32767.5:
        shift -= 1
    slopes = Fixed(16, shift).quantize(activation.slopes).astype(np.int16)
    return Leaky(slopes, shift)


def average_multiplier(taps: int) -> tuple[int, int]:
    """(multiplier, shift) for 1/taps with 17 significant bits: multiplier = round(2^shift / taps)."""
    shift = 16 + (taps - 1).bit_length()
    return (2 * (1 << shift) + taps) // (2 * taps), shift


def fused_pool(pool: FloatPool) -> FusedPool:
    """A pool behind a convolution: it keeps the convolution's format."""
    if pool.kind == "max":
        return FusedPool("max", pool.window)
    if pool.window.has_padding and not pool.count_include_pad:
        raise ModelError(
            "an average pool that excludes its padding was marked to fuse", where="pool", remedy="do not fuse it"
        )
    multiplier, shift = average_multiplier(pool.window.kernel_h * pool.window.kernel_w)
    return FusedPool("average", pool.window, multiplier, shift)


def _pool(
    layer: FloatLayer, source: Tensor, output: Tensor, scheme: FixedPointScheme, common: dict[str, Any]
) -> Pool:
    pool = _required(layer.pool, layer)
    if pool.kind == "max":
        return Pool(**common, pool="max", window=pool.window, clip_min=output.fixed.qmin, clip_max=output.fixed.qmax)
    taps = pool.window.kernel_h * pool.window.kernel_w
    if scheme.pinned is not None:
        # The published kernel: clip(NORM(sum * (65536 // taps), 16)), format unchanged.
        return Pool(
            **common,
            pool="average",
            window=pool.window,
            multiplier=65536 // taps,
            shift=16,
            clip_min=output.fixed.qmin,
            clip_max=output.fixed.qmax,
        )
    multiplier, base = average_multiplier(taps)
    by_count: tuple[int, ...] = ()
    if pool.window.has_padding and not pool.count_include_pad:
        by_count = (0, *(((1 << (base + 1)) // n + 1) // 2 for n in range(1, taps + 1)))
    return Pool(
        **common,
        pool="average",
        window=pool.window,
        multiplier=multiplier,
        shift=base + source.fixed.frac - output.fixed.frac,
        multipliers_by_count=by_count,
        clip_min=output.low,
        clip_max=output.high,
    )


def _ends(tensor: Tensor) -> tuple[int, int]:
    return tensor.low, tensor.high


def _required(pool: FloatPool | None, layer: FloatLayer) -> FloatPool:
    if pool is None:
        raise InternalError("a pool layer without a pool", where=layer.name)
    return pool
