"""Pools as Caffe's Pooling, where Caffe's rounding and its way of averaging give the same numbers."""

from __future__ import annotations

from typing import Any

from nnkit.caffe.export.context import NodeContext
from nnkit.caffe.export.linear import spatial
from nnkit.caffe.layers.pooling import window
from nnkit.graph.read.pool import read_pool


def pool(context: NodeContext) -> None:
    """Pooling MAX or AVE."""
    layer = context.read(read_pool, "Caffe pools over height and width, and gives the results only")
    method = "MAX" if layer.kind == "max" else "AVE"
    if layer.is_global:
        context.result("Pooling", [layer.data], pooling_param={"pool": method, "global_pooling": True})
        return
    sliding = layer.window
    if sliding.dilations != (1, 1):
        context.fail("its windows are dilated", "Caffe's pooling has no dilation")
    pad, evenly = sliding.pads[:2], True
    for side, size, k, s, p, end in zip(
        sliding.input_hw, sliding.output_hw, sliding.kernel, sliding.strides, pad, sliding.pads[2:], strict=True
    ):
        caffe = window(side, k, s, p)
        if caffe is None or caffe.size != size:
            context.fail(
                f"it rounds its output to {size}, Caffe to {'none' if caffe is None else caffe.size} "
                f"(side {side}, kernel {k}, stride {s}, pad {p})",
                "choose sizes for which (side + 2 pad - kernel) is a multiple of the stride",
            )
        low, high = (-p, side + end) if layer.counts_padding else (0, side)
        starts = [i * s - p for i in range(size)]
        evenly &= all(_counted(i, k, low, high) == _counted(i, k, -p, side + p) for i in starts)
    if method == "AVE" and not evenly:
        context.fail(
            "it averages over other positions than Caffe, which counts the padding",
            "set count_include_pad, or use no padding",
        )
    geometry = spatial(sliding.kernel, sliding.strides, pad)
    fields = {"pool": method} | {key: _single(value) for key, value in geometry.items()}
    context.result("Pooling", [layer.data], pooling_param=fields)


def _counted(start: int, kernel: int, low: int, high: int) -> int:
    """Positions of a window from `start` on that lie within low..high."""
    return max(min(start + kernel, high) - max(start, low), 0)


def _single(value: Any) -> Any:
    """Pooling's fields hold one number, those of Convolution a list."""
    return value[0] if isinstance(value, list) else value
