"""Convolutions, bit-exact and fast.

Method: im2col and a float64 matrix product. Products of integers summed in float64 are exact while every partial
sum stays below 2^53; the bound max|x| * max_o(sum|w_o|) + |bias << shift| is checked for the actual weights, and
beyond it the product is done in int64. Tests compare with plain int64 loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Conv2d, Convolution, ConvTranspose2d, Tensor
from nnkit.simulate.arithmetic import IntArray, activate, output_stage, wrap
from nnkit.simulate.pooling import fused_pool
from nnkit.simulate.watch import Watch
from nnkit.simulate.windows import padded, taps

_EXACT_BELOW = 1 << 53


def _bias(op: Convolution) -> IntArray:
    shifted: IntArray = op.bias.astype(np.int64) << op.bias_shift
    return shifted


def _matmul(weights: IntArray, columns: IntArray, input_max: int) -> IntArray:
    """[O, K] @ [K, P] exactly: float64 where no partial sum can reach 2^53, int64 otherwise."""
    bound = int(np.abs(weights).sum(axis=1).max(initial=0)) * input_max
    if bound < _EXACT_BELOW:
        product = weights.astype(np.float64) @ columns.astype(np.float64)
        return product.astype(np.int64)
    result: IntArray = weights @ columns
    return result


def _input_max(x: IntArray) -> int:
    return int(np.abs(x).max(initial=0))


def conv2d(op: Conv2d, x: NDArray[Any], output: Tensor, watch: Watch | None) -> IntArray:
    """Run a Conv2d on [C, H, W] integers; returns the stored [O, OH, OW] (after a fused pool) as int64."""
    planes = padded(x.astype(np.int64), op.window, op.pad_value)
    views = taps(planes, op.window)
    out_h, out_w = views.shape[1:3]
    if op.accumulate == "running":
        values = _running(op, views, output, watch)
    else:
        acc = _wide(op, planes, views) + _bias(op)[:, None]
        values = output_stage(acc.reshape(-1, out_h, out_w), op.stage, output.fixed, op.accumulator, op.name, watch)
    return values if op.pool is None else fused_pool(op.pool, values, output.fixed)


def _wide(op: Conv2d, planes: IntArray, views: IntArray) -> IntArray:
    """Sums without bias: [O, OH * OW]."""
    channels, out_h, out_w = views.shape[:3]
    in_per_group = channels // op.groups
    out_per_group = op.weight.shape[0] // op.groups
    weight = op.weight.astype(np.int64)
    limit = _input_max(planes)
    if in_per_group == 1:  # depthwise: one tap at a time, no copies of the input
        repeated = np.repeat(views, out_per_group, axis=0) if out_per_group > 1 else views
        acc = np.zeros((weight.shape[0], out_h, out_w), dtype=np.int64)
        for ky in range(op.window.kernel_h):
            for kx in range(op.window.kernel_w):
                acc += repeated[:, :, :, ky, kx] * weight[:, 0, ky, kx, None, None]
        return acc.reshape(weight.shape[0], -1)
    results = []
    for group in range(op.groups):
        part = views[group * in_per_group : (group + 1) * in_per_group]
        columns = part.transpose(0, 3, 4, 1, 2).reshape(-1, out_h * out_w)
        kernel = weight[group * out_per_group : (group + 1) * out_per_group]
        results.append(_matmul(kernel.reshape(out_per_group, -1), columns, limit))
    return np.concatenate(results)


def _running(op: Conv2d, views: IntArray, output: Tensor, watch: Watch | None) -> IntArray:
    """The `running` semantics: one rounding and one saturation per input channel, starting from the bias."""
    channels, out_h, out_w = views.shape[:3]
    in_per_group = channels // op.groups
    out_per_group = op.weight.shape[0] // op.groups
    storage, shift = output.fixed, op.stage.shift
    rounding = 1 << (shift - 1) if shift else 0
    low, high = -(1 << (storage.bits - 1)), storage.qmax
    limit = _input_max(views)
    planes = []
    for group in range(op.groups):
        outs = slice(group * out_per_group, (group + 1) * out_per_group)
        value = np.repeat(op.bias[outs].astype(np.int64)[:, None], out_h * out_w, axis=1)
        for channel in range(in_per_group):
            columns = views[group * in_per_group + channel].transpose(2, 3, 0, 1).reshape(-1, out_h * out_w)
            kernel = op.weight[outs, channel].astype(np.int64).reshape(out_per_group, -1)
            acc = (value << shift) + _matmul(kernel, columns, limit) + rounding
            if watch is not None:
                watch.accumulator(op.name, acc, 32)
            value = wrap(acc, 32) >> shift
            if watch is not None:
                watch.saturation(op.name, value, low, high)
            value = np.clip(value, low, high)
        planes.append(value)
    return activate(np.concatenate(planes).reshape(-1, out_h, out_w), op.stage, storage)


def conv_transpose2d(op: ConvTranspose2d, x: NDArray[Any], output: Tensor, watch: Watch | None) -> IntArray:
    """Run a ConvTranspose2d on [C, H, W] integers; returns the stored [O, OH, OW] as int64."""
    data = x.astype(np.int64)
    channels, height, width = data.shape
    out_h, out_w = output.shape[-2:]
    window = op.window
    per_in, per_out = channels // op.groups, op.weight.shape[1]
    full_h = (height - 1) * window.stride_h + (window.kernel_h - 1) * window.dilation_h + 1
    full_w = (width - 1) * window.stride_w + (window.kernel_w - 1) * window.dilation_w + 1
    full = np.zeros(
        (per_out * op.groups, max(full_h, window.pad_top + out_h), max(full_w, window.pad_left + out_w)), np.int64
    )
    limit = _input_max(data)
    for group in range(op.groups):
        columns = data[group * per_in : (group + 1) * per_in].reshape(per_in, -1)
        for ky in range(window.kernel_h):
            for kx in range(window.kernel_w):
                weight = op.weight[group * per_in : (group + 1) * per_in, :, ky, kx].astype(np.int64)
                part = _matmul(np.ascontiguousarray(weight.T), columns, limit).reshape(per_out, height, width)
                top, left = ky * window.dilation_h, kx * window.dilation_w
                full[
                    group * per_out : (group + 1) * per_out,
                    top : top + (height - 1) * window.stride_h + 1 : window.stride_h,
                    left : left + (width - 1) * window.stride_w + 1 : window.stride_w,
                ] += part
    acc = full[:, window.pad_top : window.pad_top + out_h, window.pad_left : window.pad_left + out_w]
    acc = acc + _bias(op)[:, None, None]
    return output_stage(acc, op.stage, output.fixed, op.accumulator, op.name, watch)
