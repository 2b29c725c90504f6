"""Convolution; a depthwise one gathers its input in a way of its own, see `conv2d_depthwise`.

* direct: the taps of one pixel already lie at a fixed step in memory (1x1, stride 1; or a window that covers the
  whole input, so that there is one output pixel). Nothing is copied.
* rows: four output pixels at a time are gathered ("im2row") into scratch as [taps][4].

A fused pool keeps a band of convolution rows in scratch and stores only pooled rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nnkit.c.fixed.conv2d_depthwise import band_input_rows, depthwise_band, is_depthwise, reads_before_it_writes
from nnkit.c.fixed.convolution import (
    TILE,
    ConvFunction,
    ConvKernel,
    Geometry,
    Path,
    conv_call,
    conv_declarations,
    conv_needs,
    conv_uses,
    conv_variant,
    gathering_scratch,
    parts_with_scratch,
)
from nnkit.c.fixed.layer import Call
from nnkit.c.fixed.limits import KernelLimits
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.operator import Function, OperatorC, Source
from nnkit.c.fixed.pool import fused_pool_constant, fused_row
from nnkit.c.fixed.types import chw
from nnkit.c.fixed.weight_blocks import LANES, align4, pack, rounding, wide_starts
from nnkit.memory.needs import KernelNeeds
from nnkit.program import Conv2d, OpBase, Program, Tensor


class Conv2dC(OperatorC[Conv2d]):
    """`struct nnkit_conv`, with a `struct nnkit_pool` behind it where a pool is fused."""

    def functions(self, op: Conv2d, program: Program) -> tuple[Function, ...]:
        """The kernel, and the row function of a fused pool."""
        function = _function(op, program)
        if op.pool is None:
            return (function,)
        return function, fused_row(op.pool, program.tensors[op.output].fixed)

    def calls(self, op: Conv2d, program: Program, machine: CoreMachine, name: str) -> tuple[Call, ...]:
        kernel = conv2d_kernel(op, program, machine)
        pool = None
        if op.pool is not None:
            conv_hw = kernel.geometry.out_h, kernel.geometry.out_w
            pool = fused_pool_constant(f"{name}_pool", op.pool, conv_hw, program.tensors[op.output])
        return (conv_call(op, program, kernel, _function(op, program), name, pool=pool),)

    def needs(self, op: Conv2d, program: Program, machine: CoreMachine) -> KernelNeeds:
        """Scratch for gathered pixels or a band, and for the rows behind a pool."""
        kernel = conv2d_kernel(op, program, machine)
        needs = conv_needs(op, kernel, machine)
        if kernel.path != "depthwise" or op.pool is not None:
            return needs
        element_bytes = program.tensors[op.inputs[0]].format.bytes, program.tensors[op.output].format.bytes
        in_order = reads_before_it_writes(op.window, kernel.geometry, kernel.band_rows, *element_bytes)
        return replace(needs, reads_planes_first=in_order)

    def weight_blocks(self, op: Conv2d) -> list[bytes]:
        """Taps in the order input channel, kernel row, kernel column, as in OIHW."""
        channels = [op.weight[o].reshape(-1) for o in range(op.weight.shape[0])]
        per_group = len(channels) if is_depthwise(op) else len(channels) // op.groups
        return pack(op, channels, per_group, _starts(op))


def conv2d_kernel(op: Conv2d, program: Program, machine: CoreMachine) -> ConvKernel:
    """How a Conv2d runs on a machine.

    Where scratch does not hold all parts fewer run at once; where it does not hold even one, the smallest kernel is
    returned and the planner reports that it does not fit.
    """
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    geometry, path = _geometry(op, x), conv_path(op, x)
    taps = int(op.weight[0].size)
    if path == "direct" and geometry.out_h * geometry.out_w == 1:
        geometry = Geometry(op.groups, taps, 1, 1, geometry.out_channels, 1, 1)
    tile, row_bytes, band = TILE, 0, (0, 0)
    if path == "depthwise":
        budget_bytes = machine.scratch_bytes // machine.cores // (2 if op.pool is not None else 1)
        band = depthwise_band(op.window, geometry, x.format.bytes, budget_bytes)
        row_bytes = align4(band_input_rows(op.window, band[0]) * band[1] * x.format.bytes)
    elif path == "rows":
        tile, row_bytes = gathering_scratch(taps, x.format.bytes, machine)
    parts = parts_with_scratch(row_bytes, machine)
    tiles = -(-geometry.out_h * geometry.out_w // TILE)
    kernel = ConvKernel(
        path=path,
        geometry=geometry,
        blocks=-(-geometry.groups // LANES) if path == "depthwise" else geometry.blocks,
        taps=taps,
        max_parts=parts,
        split_blocks=path == "depthwise" or tiles < 2 * parts,
        tile_pixels=tile,
        row_bytes=row_bytes,
        band_rows=band[0],
        band_width=band[1],
    )
    return kernel if op.pool is None else _with_pool(kernel, op.pool.window.span_h, y, machine)


def conv_path(op: Conv2d, x: Tensor) -> Path:
    """The path of a Conv2d, by shape alone (the packing of its weights depends on it)."""
    if is_depthwise(op):
        return "depthwise"
    window, (_, height, width) = op.window, chw(x)
    if window.has_padding:
        return "rows"
    pointwise = window.kernel_h == window.kernel_w == window.stride_h == window.stride_w == 1
    # `running` needs to know where an input channel ends, which the direct kernel does not.
    full = (window.kernel_h, window.kernel_w) == (height, width) and op.accumulate == "wide"
    return "direct" if pointwise or full else "rows"


def running_output_is_signed(op: OpBase, program: Program, limits: KernelLimits) -> str | None:
    """`running` accumulation keeps its sums in a signed tensor
    fix: set `unsigned: never`, or `accumulate: wide`"""
    if not isinstance(op, Conv2d) or op.accumulate != "running" or program.tensors[op.output].fixed.signed:
        return None
    return f"{program.tensors[op.output].format} in {op.output}"


def dense_source(functions: Collection[Function]) -> Source | None:
    """The file with all convolution kernels that are not depthwise."""
    uses = conv_uses(functions, ("direct", "rows"))
    shapes: dict[str, set[tuple[int, int]]] = {}
    names: dict[str, str] = {}
    for use in uses:
        if use.path == "rows":
            names[use.x.tag] = use.x.c
            shapes.setdefault(use.x.tag, set()).update(use.shapes)
    gathers = [_Gather(tag, names[tag], tuple(sorted(shapes[tag]))) for tag in sorted(shapes)]
    values = {"variants": uses, "gathers": gathers}
    return Source("conv", "conv2d.c.j2", values, conv_declarations(uses)) if uses else None


@dataclass(frozen=True)
class _Gather:
    """The functions that gather pixels of one type. shapes: (kernel_w, stride_w) that are unrolled."""

    tag: str
    c: str
    shapes: tuple[tuple[int, int], ...]

    @property
    def widths(self) -> list[int]:
        """The kernels' widths that are unrolled."""
        return sorted({width for width, _ in self.shapes})


def _function(op: Conv2d, program: Program) -> ConvFunction:
    variant = conv_variant(op, program, conv_path(op, program.tensors[op.inputs[0]]))
    pool = None if op.pool is None else fused_row(op.pool, program.tensors[op.output].fixed).row
    return ConvFunction(variant, op.window, pool)


def _with_pool(kernel: ConvKernel, span: int, y: Tensor, machine: CoreMachine) -> ConvKernel:
    """The kernel with a band of `span` convolution rows of every block in scratch; parts divide the blocks."""
    geometry = kernel.geometry
    rows = min(span, geometry.out_h)
    block_bytes = align4(LANES * rows * geometry.out_w * y.format.bytes)
    most = max(1, machine.scratch_bytes // (kernel.row_bytes + block_bytes))
    parts = min(machine.cores, kernel.blocks, most)
    held = max(parts, (machine.scratch_bytes - parts * kernel.row_bytes) // block_bytes)
    return replace(
        kernel,
        max_parts=parts,
        split_blocks=True,
        pool_blocks=min(kernel.blocks, held),
        pool_rows=rows,
        pool_block_bytes=block_bytes,
    )


def _geometry(op: Conv2d, x: Tensor) -> Geometry:
    channels, height, width = chw(x)
    out_h, out_w = op.window.output_hw(height, width)
    return Geometry(op.groups, channels // op.groups, height, width, op.weight.shape[0] // op.groups, out_h, out_w)


def _starts(op: Conv2d) -> NDArray[np.int64]:
    """What each output channel's accumulator starts from: [O].

    running: the bias itself (its first rounding comes with the first input channel). A depthwise convolution has
    one input channel per output, for which `running` is `wide` with the bias shifted by the stage's shift.
    """
    if op.accumulate == "wide":
        return wide_starts(op)
    bias = op.bias.astype(np.int64)
    return (bias << op.stage.shift) + rounding(op) if is_depthwise(op) else bias
