"""Pools of a quantised network, and what moves its integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.program import Window
from nnkit.program.affine import AffineConcat, AffineMove, AffinePool
from nnkit_tpu.program import Mode, TpuConcat, TpuDeconv, TpuPermute, TpuPool, TpuReshape, TpuSlice, TpuUpsample
from nnkit_tpu.quantized.building import (
    IMAGE_RANK,
    ONE_PIXEL,
    OWN_ROUNDING,
    UNBOUNDED,
    Building,
    bounds_of,
    clip,
    is_from_zero,
    limited,
)


def pool(built: Building, op: AffinePool) -> None:
    """In integers, but averages whose windows do not cover the image or hold padding, which are in float32."""
    window = op.window
    if op.pool == "max":
        built.ops.append(TpuPool(**built.common(op), mode="INT8", function="max", window=window))
        return
    if op.requantize is not None and bounds_of(op.requantize, built.formats[op.output]) != UNBOUNDED:
        raise Refused(*OWN_ROUNDING)
    shape, result = built.shapes[op.inputs[0]], built.formats[op.output]
    average = partial(TpuPool, function="average", window=window, count_include_pad=op.count_include_pad)
    if is_from_zero(built.formats[op.inputs[0]]) != is_from_zero(result):
        limited(built, op, average)  # the compiler gives an average the sign of what it averages
        return
    sizes = zip(
        built.shapes[op.output][2:],
        (window.stride_h, window.stride_w),
        (window.kernel_h, window.kernel_w),
        shape[2:],
        strict=True,
    )
    covered = all((count - 1) * stride + kernel == size for count, stride, kernel, size in sizes)
    mode: Mode = "INT8" if covered and not window.has_padding else "F32"
    built.ops.append(average(**built.common(op), mode=mode))


def concat(built: Building, op: AffineConcat) -> None:
    """In integers, of parts that have the format of the result."""
    result = built.formats[op.output]
    parts = list(op.inputs)
    for index, name in enumerate(op.inputs):
        if built.formats[name] == result:
            continue
        parts[index] = f"{op.output}_part_{index}"
        built.value(parts[index], built.shapes[name][1:], result)
        if len(built.shapes[name]) == IMAGE_RANK:
            built.stored_as(name, parts[index], f"{op.name}_part_{index}")
        else:
            clip(built, f"{op.name}_part_{index}", name, parts[index])
    common = {**built.common(op), "inputs": tuple(parts)}
    built.ops.append(TpuConcat(**common, mode="INT8", axis=2 if op.rows else 1))


def move(built: Building, op: AffineMove) -> None:
    """In integers, but pixels that are repeated unequally often both ways."""
    common, shape = built.common(op), built.shapes[op.output]
    match op.move:
        case "reshape":
            made = {each.output: each.mode for each in built.ops}
            floating = made.get(op.inputs[0], "F32") == "F32"  # the compiler makes integers behind it
            built.ops.append(TpuReshape(**common, mode="F32" if floating else "INT8"))
        case "transpose":
            built.ops.append(TpuPermute(**common, mode="INT8", order=(0, *(axis + 1 for axis in op.order))))
        case "upsample" if op.scale_hw[0] == op.scale_hw[1]:
            built.ops.append(TpuUpsample(**common, mode="INT8", scale_h=op.scale_hw[0], scale_w=op.scale_hw[1]))
        case "slice":
            spans = zip(op.starts, shape[1:], op.steps, strict=True)
            ends = tuple(start + (size - 1) * step + 1 for start, size, step in spans)
            offsets, steps = (0, *op.starts), (1, *op.steps)
            built.ops.append(TpuSlice(**common, mode="INT8", offsets=offsets, steps=steps, ends=(1, *ends)))
        case "upsample":
            built.ops.append(_repeated(common, shape[1], op.scale_hw))
        case _:
            if len(shape) != IMAGE_RANK or op.pad_value != built.formats[op.output].zero_point[0]:
                raise Refused("only images are padded, and only by zero")
            top, left, bottom, right = op.pads
            padded = replace(ONE_PIXEL, pad_top=top, pad_left=left, pad_bottom=bottom, pad_right=right)
            built.stored_as(op.inputs[0], op.output, op.name, padded)


def _repeated(common: Mapping[str, Any], channels: int, times: tuple[int, int]) -> TpuDeconv:
    """Pixels repeated unequally often both ways: ones in a window without overlap, in float32."""
    ones = np.ones((channels, 1, *times), np.float32)
    window = Window(kernel_h=times[0], kernel_w=times[1], stride_h=times[0], stride_w=times[1])
    return TpuDeconv(**common, mode="F32", weight=ones, bias=None, window=window, group=channels)
