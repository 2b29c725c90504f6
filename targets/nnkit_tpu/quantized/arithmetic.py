"""Convolutions, products, sums and normalisation of a quantised network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.refusal import Refused
from nnkit.program.affine import AffineAdd, AffineConv, AffineMatMul, AffineMul, AffineNormalizeRows
from nnkit_tpu.program import TpuBinary, TpuConv, TpuDeconv, TpuLayerNorm, TpuMatMul
from nnkit_tpu.quantized.building import OWN_ROUNDING, UNBOUNDED, Building, bounds_of, clip, is_from_zero, limited


def conv(built: Building, op: AffineConv) -> None:
    """In integers; in float32 where the weights do not fit 8 bits, or where the compiler takes no scale of them."""
    source, result = (built.formats[name] for name in (op.inputs[0], op.output))
    if op.pad_value != source.zero_point[0] and op.window.has_padding:
        raise Refused("its padding is not zero")
    if op.requantize.negative_multiplier is not None:
        raise Refused(*OWN_ROUNDING)
    integers = op.weight.astype(np.int64) - op.weight_zero_points()
    scale = np.broadcast_to(np.asarray(op.weight_format.scale, np.float64), op.bias.shape)
    bounds = bounds_of(op.requantize, result)
    has_limits = bounds != UNBOUNDED
    output = f"{op.output}_unlimited" if has_limits else op.output
    built.value(output, built.shapes[op.output][1:], result)
    common: dict[str, Any] = {
        **built.common(op),
        "output": output,
        "bias": (op.bias * (scale * source.scale[0])).astype(np.float32),
        "window": op.window,
        "group": op.groups,
    }
    if op.transposed:
        weight = _by_output(integers, op.groups) * scale.reshape(-1, 1, 1, 1)
        padding = _output_padding(op, built.shapes[op.inputs[0]], built.shapes[op.output])
        built.ops.append(TpuDeconv(**common, mode="F32", weight=weight.astype(np.float32), output_padding=padding))
    else:
        fits = bool(integers.min(initial=0) >= -128 and integers.max(initial=0) <= 127)
        built.ops.append(
            TpuConv(
                **common,
                mode="INT8" if fits else "F32",
                weight=(integers * scale.reshape(-1, 1, 1, 1)).astype(np.float32),
                relu=fits and not has_limits and is_from_zero(result),
                weight_scale=tuple(float(each) for each in scale) if fits else (),
            )
        )
    if has_limits:
        clip(built, f"{op.name}_limits", output, op.output, bounds)


def _by_output(weight: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """[I, O/g, kh, kw], as ONNX has weights of a transposed convolution, as [O, I/g, kh, kw]."""
    per_group = weight.reshape(groups, -1, *weight.shape[1:])
    return np.swapaxes(per_group, 1, 2).reshape(groups * weight.shape[1], -1, *weight.shape[2:])


def _output_padding(op: AffineConv, source: Sequence[int], result: Sequence[int]) -> tuple[int, int]:
    """How many rows and columns the result has beyond what the window makes."""
    window = op.window
    height = (source[2] - 1) * window.stride_h + window.span_h - window.pad_top - window.pad_bottom
    width = (source[3] - 1) * window.stride_w + window.span_w - window.pad_left - window.pad_right
    return result[2] - height, result[3] - width


def add(built: Building, op: AffineAdd) -> None:
    """In float32, which its reader rounds."""
    if op.requantize.negative_multiplier is not None:
        raise Refused(*OWN_ROUNDING)
    result, write = built.formats[op.output], partial(TpuBinary, function="add")
    bounds = bounds_of(op.requantize, result)
    unsigned = all(is_from_zero(built.formats[name]) for name in op.inputs)  # the compiler then makes the sum so
    if bounds == UNBOUNDED and (is_from_zero(result) or not unsigned):
        built.ops.append(write(**built.common(op), mode="F32"))
    else:
        limited(built, op, write, bounds)


def mul(built: Building, op: AffineMul) -> None:
    """In float32, with limits: the compiler gives products a range around zero."""
    if op.requantize.negative_multiplier is not None:
        raise Refused(*OWN_ROUNDING)
    bounds = bounds_of(op.requantize, built.formats[op.output])
    limited(built, op, partial(TpuBinary, function="mul"), bounds)


def matmul(built: Building, op: AffineMatMul) -> None:
    """The product of two computed values, in float32."""
    if bounds_of(op.requantize, built.formats[op.output]) != UNBOUNDED:
        raise Refused(*OWN_ROUNDING)
    built.ops.append(TpuMatMul(**built.common(op), mode="F32", weight=None))


def rows(built: Building, op: AffineNormalizeRows) -> None:
    """LayerNormalization over the last axis, in float32."""
    gain, offset = (each.astype(np.float32) for each in (op.real_gain, op.real_offset))
    axis = len(built.shapes[op.output]) - 1
    built.ops.append(
        TpuLayerNorm(**built.common(op), mode="F32", axis=axis, epsilon=op.real_epsilon, scale=gain, bias=offset)
    )
