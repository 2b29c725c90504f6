"""Pools as Caffe's Pooling, where Caffe's rounding and its way of averaging give the same numbers."""

from __future__ import annotations

from typing import Any

from nnkit.caffe.export.context import NodeContext
from nnkit.caffe.export.linear import geometry, spatial
from nnkit.caffe.layers.pooling import window


def max_pool(context: NodeContext) -> None:
    """Pooling MAX."""
    if len(context.node.output) > 1 and context.node.output[1]:
        context.fail("it gives out the indices of the maxima", "Caffe's pooling gives the maxima only")
    _pool(context, "MAX")


def average_pool(context: NodeContext) -> None:
    """Pooling AVE."""
    _pool(context, "AVE")


def _pool(context: NodeContext, method: str) -> None:
    kernel = tuple(context.attribute("kernel_shape", []))
    _, height, width = context.image()
    if len(kernel) != 2:
        context.fail("its windows are not over height and width")
    out = context.result_shape
    pads, strides, dilations, pad = geometry(context, kernel, (out[2], out[3]))
    if tuple(dilations) != (1, 1):
        context.fail("its windows are dilated", "Caffe's pooling has no dilation")
    counted = bool(context.attribute("count_include_pad", 0))
    evenly = True
    for side, size, k, s, p, end in zip((height, width), out[2:], kernel, strides, pad, pads[2:], strict=True):
        found = window(side, k, s, p)
        if found is None or found.size != size:
            caffe = "none" if found is None else str(found.size)
            context.fail(
                f"it rounds its output to {size}, Caffe to {caffe} (side {side}, kernel {k}, stride {s}, pad {p})",
                "choose sizes for which (side + 2 pad - kernel) is a multiple of the stride",
            )
        low, high = (-p, side + end) if counted else (0, side)
        starts = [i * s - p for i in range(size)]
        evenly &= all(_counted(i, k, low, high) == _counted(i, k, -p, side + p) for i in starts)
    if method == "AVE" and not evenly:
        context.fail(
            "it averages over other positions than Caffe, which counts the padding",
            "set count_include_pad, or use no padding",
        )
    fields = {"pool": method} | {key: _single(value) for key, value in spatial(kernel, strides, pad).items()}
    context.result("Pooling", [context.input(0)], pooling_param=fields)


def _counted(start: int, kernel: int, low: int, high: int) -> int:
    """Positions of a window from `start` on that lie within low..high."""
    return max(min(start + kernel, high) - max(start, low), 0)


def _single(value: Any) -> Any:
    """Pooling's fields hold one number, those of Convolution a list."""
    return value[0] if isinstance(value, list) else value


def global_average(context: NodeContext) -> None:
    """Pooling AVE over the whole map."""
    context.image()
    context.result("Pooling", [context.input(0)], pooling_param={"pool": "AVE", "global_pooling": True})


def global_max(context: NodeContext) -> None:
    """Pooling MAX over the whole map."""
    context.image()
    context.result("Pooling", [context.input(0)], pooling_param={"pool": "MAX", "global_pooling": True})
