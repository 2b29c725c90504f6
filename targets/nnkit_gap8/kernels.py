"""Which kernel runs an op, and what it needs: the contract with the planner (`KernelNeeds`).

Paths of a convolution, all ending in the same register-blocked tile of 4 output channels by 4 pixels:

* direct: the taps of one pixel already lie at a fixed step in L2 (1x1, stride 1; or a window that covers the whole
  input, so that there is one output pixel). Nothing is copied.
* rows: four output pixels at a time are gathered ("im2row") into L1 as [taps][4].
* depthwise: one input channel per output channel; a band of its rows is copied to L1 together with the padding.
* transposed: rows, one output phase (oy mod stride_h, ox mod stride_w) at a time, so that no tap multiplies a zero.

A fused pool keeps a band of convolution rows in L1 and stores only pooled rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from nnkit.memory.needs import KernelNeeds
from nnkit.program import Conv2d, Convolution, OpBase, Program, Tensor, Window
from nnkit_gap8.phases import Phase, output_phases

LANES = 4  # output channels of a weight block
TILE = 4  # output pixels of a tile
DEFAULT_L1_BYTES = 64 * 1024
_CHUNK_CHANNELS = 64  # gathering costs about 3.5 / channels instructions per MAC: below this it shows

Path: TypeAlias = Literal["direct", "rows", "depthwise", "transposed"]


@dataclass(frozen=True)
class Geometry:
    """Sizes that every convolution kernel is written in; channels are per group, H and W of one plane.

    For a direct full-window convolution the input is seen as [C*H*W, 1, 1].
    out_h, out_w: of the convolution, before a fused pool.
    """

    groups: int
    in_channels: int
    in_h: int
    in_w: int
    out_channels: int
    out_h: int
    out_w: int

    @property
    def blocks_per_group(self) -> int:
        """Weight blocks of one group; its last block may have empty lanes."""
        return -(-self.out_channels // LANES)

    @property
    def blocks(self) -> int:
        """Weight blocks of the layer. A depthwise layer's blocks hold 4 groups."""
        return self.groups * self.blocks_per_group


@dataclass(frozen=True)
class ConvKernel:
    """How one Conv2d or ConvTranspose2d runs.

    taps: multiply-accumulates of one output value, = rows of the packed weights.
    max_parts: parts that may run at once (limited by L1).
    split_blocks: parts divide the weight blocks, not the pixels.
    row_bytes: L1 of one part for gathered pixels, tile_pixels of them at once; or for a depthwise layer's band:
        the input rows of band_rows output rows of one channel, band_width elements each.
    pool_blocks: blocks whose convolution rows fit in L1 together, over all parts (0: no fused pool).
    pool_rows: rows kept per channel; pool_block_bytes: L1 of one block's rows.
    """

    path: Path
    geometry: Geometry
    blocks: int
    taps: int
    max_parts: int
    split_blocks: bool
    tile_pixels: int
    row_bytes: int
    pool_blocks: int
    pool_rows: int
    pool_block_bytes: int
    phases: tuple[Phase, ...] = ()
    band_rows: int = 0
    band_width: int = 0

    @property
    def scratch_bytes(self) -> int:
        """L1 while the op runs, all parts together."""
        return self.max_parts * self.row_bytes + self.pool_blocks * self.pool_block_bytes


def chw(tensor: Tensor) -> tuple[int, int, int]:
    """Shape as (C, H, W); [F] is (F, 1, 1)."""
    channels, height, width = (*tensor.shape, 1, 1)[:3]
    return channels, height, width


def align4(size_bytes: int) -> int:
    """`size_bytes` rounded up to a multiple of 4."""
    return -(-size_bytes // 4) * 4


def conv_kernel(op: Convolution, program: Program, cores: int, l1_bytes: int = DEFAULT_L1_BYTES) -> ConvKernel:
    """Choose the kernel of a convolution for `cores` parts and `l1_bytes` of scratch.

    Where not all parts fit in L1 fewer run at once; where not even one fits, the smallest kernel is returned
    and the planner reports that it does not fit.
    """
    if not isinstance(op, Conv2d):
        return _transposed(op, program, cores, l1_bytes)
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    geometry = _conv_geometry(op, x)
    path = conv_path(op, geometry)
    taps = int(op.weight[0].size)
    if path == "direct" and geometry.out_h * geometry.out_w == 1:
        geometry = Geometry(op.groups, taps, 1, 1, geometry.out_channels, 1, 1)
    blocks = -(-geometry.groups // LANES) if path == "depthwise" else geometry.blocks
    tile = TILE
    row_bytes = band_rows = band_width = 0
    if path == "depthwise":
        budget_bytes = l1_bytes // cores // (2 if op.pool is not None else 1)
        band_rows, band_width = _band(op.window, geometry, x.format.bytes, budget_bytes)
        row_bytes = align4(_input_rows(op.window, band_rows) * band_width * x.format.bytes)
    if path == "rows":
        tile = TILE if align4(taps * TILE * x.format.bytes) <= l1_bytes else 1
        row_bytes = align4(taps * tile * x.format.bytes)
    pool_rows = pool_block_bytes = pool_blocks = 0
    if op.pool is not None:
        window = op.pool.window
        pool_rows = min((window.kernel_h - 1) * window.dilation_h + 1, geometry.out_h)
        pool_block_bytes = align4(LANES * pool_rows * geometry.out_w * y.format.bytes)
        parts = min(cores, blocks, max(1, l1_bytes // (row_bytes + pool_block_bytes)))
        pool_blocks = min(blocks, max(parts, (l1_bytes - parts * row_bytes) // pool_block_bytes))
        split_blocks = True
    else:
        parts = min(cores, max(1, l1_bytes // row_bytes)) if row_bytes else cores
        tiles = -(-geometry.out_h * geometry.out_w // TILE)
        split_blocks = path == "depthwise" or tiles < 2 * parts
    return ConvKernel(
        path,
        geometry,
        blocks,
        taps,
        parts,
        split_blocks,
        tile,
        row_bytes,
        pool_blocks,
        pool_rows,
        pool_block_bytes,
        band_rows=band_rows,
        band_width=band_width,
    )


def _band(window: Window, geometry: Geometry, element_bytes: int, budget_bytes: int) -> tuple[int, int]:
    """(output rows, elements per input row) of a depthwise band within the budget; at least one output row.

    Rows are wide enough to compute whole tiles, also where the last tile of a row is not full.
    """
    columns = -(-geometry.out_w // TILE) * TILE
    width = (columns - 1) * window.stride_w + (window.kernel_w - 1) * window.dilation_w + 1
    span = _input_rows(window, 1)
    rows = (budget_bytes // (width * element_bytes) - span) // window.stride_h + 1
    return max(1, min(rows, geometry.out_h)), width


def _input_rows(window: Window, output_rows: int) -> int:
    """Input rows that `output_rows` output rows read."""
    return (output_rows - 1) * window.stride_h + (window.kernel_h - 1) * window.dilation_h + 1


def conv_path(op: Conv2d, geometry: Geometry) -> Path:
    """The path of a Conv2d, by shape alone (the packing of its weights depends on it)."""
    window = op.window
    if geometry.in_channels == 1 and geometry.out_channels == 1 and op.groups > 1:
        return "depthwise"
    if window.has_padding:
        return "rows"
    pointwise = window.kernel_h == window.kernel_w == window.stride_h == window.stride_w == 1
    # `running` needs to know where an input channel ends, which the direct kernel does not.
    full = (window.kernel_h, window.kernel_w) == (geometry.in_h, geometry.in_w) and op.accumulate == "wide"
    return "direct" if pointwise or full else "rows"


def kernel_needs(op: OpBase, program: Program, cores: int, l1_bytes: int = DEFAULT_L1_BYTES) -> KernelNeeds:
    """What the planner must provide for `op` when up to `cores` parts run at once."""
    if not isinstance(op, Convolution):
        return KernelNeeds()
    kernel = conv_kernel(op, program, cores, l1_bytes)
    scratch = (("l1", kernel.scratch_bytes),) if kernel.scratch_bytes else ()
    gathers = kernel.path in ("rows", "transposed")
    return KernelNeeds(
        scratch_bytes=scratch,
        weight_block_bytes=(block_bytes(op, kernel.taps),) * kernel.blocks,
        min_blocks_per_chunk=min(kernel.blocks, _CHUNK_CHANNELS // LANES) if gathers else 1,
        repacks_input=gathers,
    )


def block_bytes(op: Convolution, taps: int) -> int:
    """Bytes of one weight block: accumulator starts, slopes where leaky, weights [taps][4]."""
    start_bytes = 8 if op.accumulator == "int64" else 4
    slopes = LANES * 2 if op.stage.leaky is not None else 0
    return align4(LANES * start_bytes + slopes + taps * LANES * op.weight_bits // 8)


def _conv_geometry(op: Conv2d, x: Tensor) -> Geometry:
    channels, height, width = chw(x)
    out_h, out_w = op.window.output_hw(height, width)
    return Geometry(op.groups, channels // op.groups, height, width, op.weight.shape[0] // op.groups, out_h, out_w)


def _transposed(op: Convolution, program: Program, cores: int, l1_bytes: int) -> ConvKernel:
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    channels, in_h, in_w = chw(x)
    _, out_h, out_w = chw(y)
    in_per_group = channels // op.groups
    geometry = Geometry(op.groups, in_per_group, in_h, in_w, int(op.weight.shape[1]), out_h, out_w)
    phases = output_phases(op.window)
    deepest = max(len(phase.taps_y) * len(phase.taps_x) for phase in phases) * in_per_group
    tile = TILE if align4(deepest * TILE * x.format.bytes) <= l1_bytes else 1
    row_bytes = align4(deepest * tile * x.format.bytes)
    parts = min(cores, max(1, l1_bytes // row_bytes)) if row_bytes else cores
    taps = in_per_group * int(op.weight.shape[2] * op.weight.shape[3])
    return ConvKernel(
        "transposed", geometry, geometry.blocks, taps, parts, out_h < parts, tile, row_bytes, 0, 0, 0, phases
    )
