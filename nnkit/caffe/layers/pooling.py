"""Pooling and SPP.

Caffe rounds the output size up: out = ceil((H + 2 pad - k) / stride) + 1, less one where the last window would begin
in the padding at the end. ONNX tools do not agree on `ceil_mode` at borders, so the graph has none: the missing rows
are explicit padding at the end, in floor mode, which every tool computes alike.

Average: Caffe divides by the window's size within the input and its declared padding, and leaves out what lies beyond
(the rows that rounding up adds). That is count_include_pad = 1 where no window reaches beyond the declared padding,
0 where there is no declared padding, and otherwise a Pad of zeros before a pool that does not count its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nnkit.caffe.layers.context import LayerContext
from nnkit.caffe.layers.convolution import pair

_MAX, _AVERAGE = 0, 1
_OPS = {_MAX: "MaxPool", _AVERAGE: "AveragePool"}


@dataclass(frozen=True)
class Window:
    """Pooling along one side. size: of the output; end: rows of padding behind the input that floor mode needs."""

    kernel: int
    stride: int
    pad: int
    size: int
    end: int


def window(side: int, kernel: int, stride: int, pad: int, *, ceil: bool = True) -> Window | None:
    """Caffe's windows along one side; None where there is none, or one that sees no input."""
    room = side + 2 * pad - kernel
    if room < 0 and not (ceil and room > -stride):
        return None
    size = (-(-room // stride) if ceil else room // stride) + 1
    if pad and (size - 1) * stride >= side + pad:
        size -= 1
    if size < 1 or (size - 1) * stride - pad >= side or pad >= kernel:
        return None
    needed = (size - 1) * stride + kernel - side - pad
    end = pad if room >= 0 and room // stride + 1 == size else max(needed, 0)
    return Window(kernel, stride, pad, size, end)


def pooling(context: LayerContext) -> None:
    """MaxPool or AveragePool, or their global forms."""
    context.counts(1)
    parameter = context.parameter("pooling_param")
    channels, height, width = context.image()
    if parameter.pool not in _OPS:
        context.fail("stochastic pooling cannot be taken", "use MAX or AVE")
    batch = context.shape()[0]
    if parameter.global_pooling:
        if parameter.HasField("kernel_size") or parameter.HasField("kernel_h") or parameter.HasField("kernel_w"):
            context.fail("it is global and has a kernel size too", "keep one of the two")
        context.result(f"Global{_OPS[parameter.pool]}", [context.bottoms[0]], (batch, channels, 1, 1))
        return
    kernel = pair(context, parameter, "kernel_size", None, 1)
    stride = pair(context, parameter, "stride", 1, 1)
    pad = pair(context, parameter, "pad", 0, 0)
    ceil = parameter.round_mode == 0 and parameter.ceil_mode
    rows = _window(context, height, kernel[0], stride[0], pad[0], ceil)
    columns = _window(context, width, kernel[1], stride[1], pad[1], ceil)
    add_pool(context, parameter.pool, context.bottoms[0], rows, columns, "")


def _window(context: LayerContext, side: int, kernel: int, stride: int, pad: int, ceil: bool) -> Window:
    fitting = window(side, kernel, stride, pad, ceil=ceil)
    if fitting is None:
        context.fail(
            f"a window of {kernel} with stride {stride} and pad {pad} on a side of {side} would see no input",
            "make the kernel smaller than the padded input, and larger than the pad",
        )
    return fitting


def add_pool(context: LayerContext, method: int, value: str, rows: Window, columns: Window, label: str) -> str:
    """A pool as nodes: the layer's result where `label` is empty, else an inner value."""
    batch, channels, height, width = context.builder.shapes[value]
    pads = [rows.pad, columns.pad, rows.end, columns.end]
    attributes: dict[str, Any] = {
        "kernel_shape": [rows.kernel, columns.kernel],
        "strides": [rows.stride, columns.stride],
    }
    if method == _AVERAGE:
        beyond = rows.end > rows.pad or columns.end > columns.pad
        padded = bool(rows.pad or columns.pad)
        if beyond and padded:
            shape = (batch, channels, height + 2 * rows.pad, width + 2 * columns.pad)
            around = [0, 0, rows.pad, columns.pad, 0, 0, rows.pad, columns.pad]
            inputs = [value, context.integers(f"{label}pads", around), context.scalar(f"{label}zero", 0.0)]
            value = context.part("Pad", inputs, shape, f"{label}pad")
            pads = [0, 0, max(rows.end - rows.pad, 0), max(columns.end - columns.pad, 0)]
        attributes["count_include_pad"] = int(padded and not beyond)
    shape = (batch, channels, rows.size, columns.size)
    attributes["pads"] = pads
    if label:
        return context.part(_OPS[method], [value], shape, f"{label}pool", **attributes)
    context.result(_OPS[method], [value], shape, **attributes)
    return context.layer.tops[0]


def spatial_pyramid(context: LayerContext) -> None:
    """Pools of 1, 4, 16, ... bins, each flattened, concatenated. Level n has 2^n bins a side.

    Kernel and stride are ceil(side / bins), the padding half of what is then too much, rounded up.
    """
    context.counts(1)
    parameter = context.parameter("spp_param")
    _, height, width = context.image()
    if parameter.pool not in _OPS:
        context.fail("stochastic pooling cannot be taken", "use MAX or AVE")
    levels = parameter.pyramid_height
    if not 1 <= levels <= 16 or 2 ** (levels - 1) > min(height, width):
        context.fail(f"its pyramid_height is {levels}", f"2^(height - 1) may not exceed {min(height, width)}")
    batch, flat = context.shape()[0], []
    for level in range(levels):
        bins = 2**level
        rows, columns = (
            _window(context, side, kernel, kernel, (kernel * bins - side + 1) // 2, True)
            for side, kernel in ((height, -(-height // bins)), (width, -(-width // bins)))
        )
        pooled = add_pool(context, parameter.pool, context.bottoms[0], rows, columns, f"level{level}_")
        count = int(np.prod(context.builder.shapes[pooled][1:]))
        flat.append(context.part("Flatten", [pooled], (batch, count), f"level{level}_flatten", axis=1))
    total = sum(context.builder.shapes[name][1] for name in flat)
    if len(flat) == 1:
        context.result("Identity", flat, (batch, total))
    else:
        context.result("Concat", flat, (batch, total), axis=1)
