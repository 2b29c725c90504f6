"""Which layers have kernels for tiles, and what their tiles look like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nnkit.c.fixed.conv2d import conv2d_kernel
from nnkit.c.fixed.conv2d_depthwise import is_depthwise
from nnkit.c.fixed.conv2d_packed import PackedLayout, packed_layout, why_not_packed
from nnkit.c.fixed.conv_transpose2d_packed import transposed_layout, why_transposed_not_packed
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.types import chw, ctype
from nnkit.c.fixed.weight_blocks import block_bytes
from nnkit.program import (
    Activation,
    Add,
    Conv2d,
    ConvTranspose2d,
    Fixed,
    Lookup,
    Mul,
    OpBase,
    Pool,
    Program,
    Window,
)
from nnkit_gap8.cluster import costs
from nnkit_gap8.cluster.tile_plan import Rows, Slices, TiledOp, TileInput

_SCRATCH_SHARE = 6  # of L1 goes to a depthwise kernel's bands

Compute = Callable[[int, int, int], float]
"""Cycles of a tile of channels, kernel rows, output rows; the image is apart."""


@dataclass(frozen=True)
class SliceCosts:
    """What a slice of so many groups of the input's channels costs in a tile.

    compute: by channels, kernel rows, groups; without a pool behind. image: by kernel rows, groups.
    pool: of the tile's last slice, by channels, output rows. least: what each slice more adds to `TileCosts.least`,
    by channels.
    """

    compute: Callable[[int, int, int], float]
    image: Callable[[int, int], float]
    pool: Callable[[int, int], float]
    least: Callable[[int], float]


@dataclass(frozen=True)
class TileCosts:
    """compute: of the kernels on a tile. image: of a new input's, by kernel rows.

    least: of all computation of so many channels, if every core worked without a pause on tiles of any size.
    slices: of a layer whose input channels can come in slices.
    """

    compute: Compute
    image: Callable[[int], float]
    least: Callable[[int], float]
    slices: SliceCosts | None = None


def describe(op: OpBase, program: Program, machine: CoreMachine) -> tuple[TiledOp, TileCosts] | str:
    """The tiles of a layer and what they cost, or why it has none."""
    if op.placement == "cpu":
        return "kept off the cluster by the recipe"
    if isinstance(op, Conv2d):
        if is_depthwise(op):
            return _depthwise(op, program, machine)
        reason = why_not_packed(op, program)
        if reason is None and program.tensors[op.output].elements == op.weight.shape[0] > 4:
            reason = "one output pixel: bound by its weights"
        return reason or _packed(op, program, machine.cores)
    if isinstance(op, ConvTranspose2d):
        return why_transposed_not_packed(op, program) or _transposed(op, program, machine.cores)
    if isinstance(op, Pool):
        return _pool(op, program, machine.cores)
    if isinstance(op, Add | Mul | Activation | Lookup):
        return _elementwise(op, program, machine.cores)
    return f"no kernel for tiles of {op.kind}"


def _rows(window: Window, height: int) -> Rows:
    return Rows(height, window.stride_h, window.pad_top, window.span_h)


def _packed(op: Conv2d, program: Program, cores: int) -> tuple[TiledOp, TileCosts]:
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    (channels, height, width), (out_channels, out_h, out_w) = chw(x), chw(y)
    conv_h, conv_w = op.window.output_hw(height, width)
    layout = packed_layout(op, program)
    rows = _rows(op.window, height)
    tiled = TiledOp(
        name=op.name,
        channels=out_channels,
        height=out_h,
        width=out_w,
        row_bytes=out_w * y.format.bytes,
        inputs=(TileInput(channels, width * x.format.bytes, rows),),
        pool=None if op.pool is None else _rows(op.pool.window, conv_h),
        band_row_bytes=conv_w * y.format.bytes,
        block_bytes=layout.block_bytes,
        image_row_bytes=layout.image_row_bytes,
        image_rows=rows,
        slices=Slices(layout.entry_groups, layout.lanes, layout.taps, layout.head_bytes, conv_w)
        if layout.can_be_sliced
        else None,
    )
    columns = channels * op.window.kernel_w if layout.folded else layout.entry_groups

    same_type = ctype(x.fixed) == layout.lane
    cost = _pool_cost(op.pool.kind, op.pool.window, y.fixed) if op.pool is not None else "max"

    def pooled(tile_channels: int, out_rows: int) -> float:
        if op.pool is None:
            return 0.0
        window = op.pool.window
        overlap = max(0, window.span_h - window.stride_h)
        taps = window.kernel_h * window.kernel_w
        return (
            costs.FORK_CYCLES
            + costs.pool_cycles(tile_channels, out_rows, out_w, taps, cost, cores)
            + costs.kept_cycles(tile_channels, overlap * conv_w, cores)
        )

    def compute(tile_channels: int, kernel_rows: int, out_rows: int) -> float:
        packed = costs.packed_cycles(layout, kernel_rows * conv_w, tile_channels, cores)
        return costs.FORK_CYCLES + packed + pooled(tile_channels, out_rows)

    def image_of(kernel_rows: int, image_columns: int) -> float:
        image_rows = (kernel_rows - 1) * rows.stride + rows.span
        return costs.FORK_CYCLES + costs.image_cycles(layout, image_rows, image_columns, cores, same_type)

    def image(kernel_rows: int) -> float:
        return image_of(kernel_rows, columns)

    def slice_compute(tile_channels: int, kernel_rows: int, groups: int) -> float:
        part = replace(layout, row_groups=layout.row_groups // layout.entry_groups * groups)
        return costs.FORK_CYCLES + costs.sliced_cycles(part, kernel_rows * conv_w, tile_channels, cores)

    def slice_least(tile_channels: int) -> float:
        return costs.least_slice_cycles(layout, (made[1] - made[0]) * conv_w, tile_channels, cores)

    made = tiled.kernel_rows(0, out_h)
    sliced = SliceCosts(slice_compute, image_of, pooled, slice_least) if layout.can_be_sliced else None

    def least(tile_channels: int) -> float:
        image_rows = (made[1] - made[0] - 1) * rows.stride + rows.span
        return costs.least_packed_cycles(layout, (made[1] - made[0]) * conv_w, tile_channels, cores) + (
            costs.image_cycles(layout, image_rows * columns, 1, 1, same_type) / cores
        )

    return tiled, TileCosts(compute, image, least, sliced)


def _transposed(op: ConvTranspose2d, program: Program, cores: int) -> tuple[TiledOp, TileCosts]:
    """A tile's row is as many rows of the output as the stride says."""
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    (channels, height, width), (out_channels, _, out_w) = chw(x), chw(y)
    layout = transposed_layout(op, program)
    rows = Rows(height, 1, layout.pad_top, layout.image.rows)
    tiled = TiledOp(
        name=op.name,
        channels=out_channels,
        height=layout.rows,
        width=op.window.stride_h * out_w,
        row_bytes=op.window.stride_h * out_w * y.format.bytes,
        inputs=(TileInput(channels, width * x.format.bytes, rows),),
        block_bytes=layout.block_bytes,
        image_row_bytes=layout.image.image_row_bytes,
        image_rows=rows,
    )
    same_type = ctype(x.fixed) == layout.image.lane

    def compute(tile_channels: int, kernel_rows: int, out_rows: int) -> float:
        return costs.FORK_CYCLES + costs.transposed_cycles(layout, out_rows, tile_channels, cores)

    def image(kernel_rows: int) -> float:
        image_rows = kernel_rows - 1 + rows.span
        columns = layout.image.entry_groups
        return costs.FORK_CYCLES + costs.image_cycles(layout.image, image_rows, columns, cores, same_type)

    def least(tile_channels: int) -> float:
        return costs.least_transposed_cycles(layout, tile_channels, cores)

    return tiled, TileCosts(compute, image, least)


def _pool_cost(kind: str, window: Window, storage: Fixed) -> costs.PoolCost:
    if kind != "max":
        return "average"
    sizes = (window.kernel_h, window.kernel_w, window.stride_w, window.dilation_h, window.dilation_w)
    return "pairs" if sizes == (3, 3, 2, 1, 1) and storage.signed else "max"


def _depthwise(op: Conv2d, program: Program, machine: CoreMachine) -> tuple[TiledOp, TileCosts] | str:
    if op.pool is not None:
        return "a pool behind a depthwise convolution"
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    (_, height, width), (channels, out_h, out_w) = chw(x), chw(y)
    kernel = conv2d_kernel(op, program, depthwise_machine(machine))
    taps = op.window.kernel_h * op.window.kernel_w
    tiled = TiledOp(
        name=op.name,
        channels=channels,
        height=out_h,
        width=out_w,
        row_bytes=out_w * y.format.bytes,
        inputs=(TileInput(None, width * x.format.bytes, _rows(op.window, height)),),
        block_bytes=block_bytes(op, kernel.taps),
        scratch_bytes=kernel.scratch_bytes,
    )
    stride = op.window.stride_h * op.window.stride_w

    def compute(tile_channels: int, kernel_rows: int, out_rows: int) -> float:
        return costs.FORK_CYCLES + costs.depthwise_cycles(
            tile_channels, out_rows, out_w, taps, stride, kernel.max_parts
        )

    return tiled, without_image(compute, out_h)


def depthwise_machine(machine: CoreMachine) -> CoreMachine:
    """What a depthwise kernel is cut for beside the tile that it works on."""
    return CoreMachine(machine.cores, machine.scratch_bytes // _SCRATCH_SHARE)


def _pool(op: Pool, program: Program, cores: int) -> tuple[TiledOp, TileCosts]:
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    (_, height, width), (channels, out_h, out_w) = chw(x), chw(y)
    taps = op.window.kernel_h * op.window.kernel_w
    tiled = TiledOp(
        name=op.name,
        channels=channels,
        height=out_h,
        width=out_w,
        row_bytes=out_w * y.format.bytes,
        inputs=(TileInput(None, width * x.format.bytes, _rows(op.window, height)),),
    )

    kind: costs.PoolCost = "max" if op.pool == "max" else "average"

    def compute(tile_channels: int, kernel_rows: int, out_rows: int) -> float:
        return costs.FORK_CYCLES + costs.pool_cycles(tile_channels, out_rows, out_w, taps, kind, cores)

    return tiled, without_image(compute, out_h)


def _elementwise(op: OpBase, program: Program, cores: int) -> tuple[TiledOp, TileCosts] | str:
    y = program.tensors[op.output]
    channels, height, width = chw(y)
    stage = getattr(op, "stage", None)
    slopes = stage is not None and stage.leaky is not None and stage.leaky.slopes.size > 1
    if slopes:
        return "a slope for each channel"
    inputs: tuple[TileInput, ...]
    if isinstance(op, Lookup):
        # Its parts divide elements: a tile of channels and rows is elements in a row.
        inputs = (TileInput(None, width * program.tensors[op.inputs[0]].format.bytes, Rows(height)),)
        each = 16.0 if op.step_bits else 20.0
    else:
        inputs = tuple(_operand(program, name, channels, height, width) for name in op.inputs)
        each = 31.0 if isinstance(op, Add) and y.format.bytes == 1 else 22.0
    tiled = TiledOp(
        name=op.name, channels=channels, height=height, width=width, row_bytes=width * y.format.bytes, inputs=inputs
    )

    def compute(tile_channels: int, kernel_rows: int, out_rows: int) -> float:
        if isinstance(op, Lookup):
            return costs.FORK_CYCLES + costs.ceil_div(tile_channels * out_rows * width, cores) * each
        return costs.FORK_CYCLES + costs.elementwise_cycles(tile_channels, out_rows * width, cores, each)

    return tiled, without_image(compute, height)


def _operand(program: Program, name: str, channels: int, height: int, width: int) -> TileInput:
    tensor = program.tensors[name]
    if tensor.elements == channels * height * width:
        return TileInput(None, width * tensor.format.bytes, Rows(height))
    return TileInput(None, tensor.format.bytes, Rows(1, stride=0))


def without_image(compute: Compute, height: int) -> TileCosts:
    """Without a prepared image. The least is one tile with all rows: parts divide channels, whose number stays."""

    def least(channels: int) -> float:
        return compute(channels, height, height) - costs.FORK_CYCLES

    return TileCosts(compute, lambda rows: 0.0, least)


def packed_of(op: OpBase, program: Program) -> PackedLayout | None:
    """The layout of a layer that runs packed."""
    return packed_layout(op, program) if isinstance(op, Conv2d) and not is_depthwise(op) else None
