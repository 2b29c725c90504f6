"""Depthwise convolution: one input channel per output channel.

A band of a channel's rows is copied to scratch together with the padding. A weight block holds 4 channels.
"""

from __future__ import annotations

from collections.abc import Collection

from nnkit.c.fixed.convolution import TILE, Geometry, conv_declarations, conv_uses
from nnkit.c.fixed.operator import Function, Source
from nnkit.program import Conv2d, Window


def is_depthwise(op: Conv2d) -> bool:
    """Whether every output channel reads one input channel, and no two the same."""
    return op.groups > 1 and op.weight.shape[1] == 1 and op.weight.shape[0] == op.groups


def depthwise_band(window: Window, geometry: Geometry, element_bytes: int, budget_bytes: int) -> tuple[int, int]:
    """(output rows, elements per input row) of a band within the budget; at least one output row.

    Rows are wide enough to compute whole tiles, also where the last tile of a row is not full.
    """
    columns = -(-geometry.out_w // TILE) * TILE
    width = (columns - 1) * window.stride_w + window.span_w
    rows = (budget_bytes // (width * element_bytes) - window.span_h) // window.stride_h + 1
    return max(1, min(rows, geometry.out_h)), width


def band_input_rows(window: Window, output_rows: int) -> int:
    """Input rows that `output_rows` output rows read."""
    return (output_rows - 1) * window.stride_h + window.span_h


def reads_before_it_writes(
    window: Window, geometry: Geometry, band_rows: int, input_bytes: int, output_bytes: int
) -> bool:
    """Whether the output may start where the input does, if channels are computed in order; bytes: of an element.

    A band's input rows are copied to scratch before its output rows are written. Those must end at or before the
    first row that the next band reads. In later channels there is more room, where the output is smaller.
    """
    in_row, out_row = geometry.in_w * input_bytes, geometry.out_w * output_bytes
    if geometry.out_h * out_row > geometry.in_h * in_row:
        return False
    return all(
        row * out_row <= max(0, row * window.stride_h - window.pad_top) * in_row
        for row in range(band_rows, geometry.out_h, band_rows)
    )


def depthwise_source(functions: Collection[Function]) -> Source | None:
    """The file with all depthwise kernels."""
    uses = conv_uses(functions, ("depthwise",))
    values = {"variants": uses}
    return Source("conv_depthwise", "conv2d_depthwise.c.j2", values, conv_declarations(uses)) if uses else None
