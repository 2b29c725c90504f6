"""What the kernels of all convolutions share: sizes, scratch, variants, and the layer's constant.

All paths end in the same register-blocked tile of 4 output channels by 4 pixels (tile.j2); how the input gets there
is in `conv2d`, `conv2d_depthwise` and `conv_transpose2d`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from nnkit.c.fixed.layer import Call, Constant, stage_lines, window_line
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.operator import Declaration, Function
from nnkit.c.fixed.pool import PoolRow
from nnkit.c.fixed.types import CType, ctype
from nnkit.c.fixed.weight_blocks import LANES, align4, block_bytes
from nnkit.memory.needs import KernelNeeds
from nnkit.program import Conv2d, Convolution, Fixed, Program, Window

TILE = 4  # output pixels of a tile
_CHUNK_CHANNELS = 64  # gathering costs about 3.5 / channels instructions per MAC: below this it shows
_MOST_UNROLLED = 5  # kernels wider than this are looped over
_MOST_UNROLLED_TAPS = 9  # weights that stay in registers

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


@dataclass(frozen=True, kw_only=True)
class ConvKernel:
    """How one Conv2d or ConvTranspose2d runs.

    taps: multiply-accumulates of one output value, = rows of the packed weights.
    max_parts: parts that may run at once (limited by the scratch memory).
    split_blocks: parts divide the weight blocks, not the pixels.
    row_bytes: scratch of one part for gathered pixels, tile_pixels of them at once; or for a depthwise layer's band:
        the input rows of band_rows output rows of one channel, band_width elements each.
    pool_blocks: blocks whose convolution rows fit in scratch together, over all parts (0: no fused pool).
    pool_rows: rows kept per channel; pool_block_bytes: scratch of one block's rows.
    """

    path: Path
    geometry: Geometry
    blocks: int
    taps: int
    max_parts: int
    split_blocks: bool
    tile_pixels: int = TILE
    row_bytes: int = 0
    band_rows: int = 0
    band_width: int = 0
    pool_blocks: int = 0
    pool_rows: int = 0
    pool_block_bytes: int = 0

    @property
    def scratch_bytes(self) -> int:
        """Scratch while the op runs, all parts together."""
        return self.max_parts * self.row_bytes + self.pool_blocks * self.pool_block_bytes


@dataclass(frozen=True, order=True)
class ConvVariant:
    """A convolution kernel. acc: accumulator bits. running: rounds after each input channel."""

    path: Path
    x: CType
    w: CType
    y: CType
    acc: int
    running: bool
    leaky: bool

    @property
    def head(self) -> int:
        """32-bit words of a block's accumulator starts."""
        return 8 if self.acc == 64 else 4

    @property
    def name(self) -> str:
        """Name of the C function, without the network's prefix."""
        extras = ("_running" if self.running else "") + ("_leaky" if self.leaky else "")
        wide = "_acc64" if self.acc == 64 else ""
        return f"conv_{self.path}_{self.x.tag}_{self.w.tag}_{self.y.tag}{extras}{wide}"


@dataclass(frozen=True)
class ConvFunction(Function):
    """A convolution with this window, and what pools behind it."""

    variant: ConvVariant
    window: Window
    pool: PoolRow | None = None

    @property
    def name(self) -> str:
        return self.variant.name if self.pool is None else f"{self.variant.name}_{self.pool.suffix}"


@dataclass(frozen=True)
class ConvUse(ConvVariant):
    """How a network uses one variant: plain, behind which pools, and the windows to unroll.

    shapes: (kernel_w, stride_w); windows, for depthwise kernels: (kernel_h, kernel_w, stride_w).
    """

    plain: bool
    pools: tuple[PoolRow, ...]
    shapes: tuple[tuple[int, int], ...]
    windows: tuple[tuple[int, int, int], ...]


def conv_variant(op: Convolution, program: Program, path: Path) -> ConvVariant:
    """The variant that runs a convolution."""
    x, y = program.tensors[op.inputs[0]].fixed, program.tensors[op.output].fixed
    weight = ctype(Fixed(op.weight_bits, 0))
    acc = 64 if op.accumulator == "int64" else 32
    return ConvVariant(path, ctype(x), weight, ctype(y), acc, rounds_by_channel(op, path), op.stage.leaky is not None)


def rounds_by_channel(op: Convolution, path: Path) -> bool:
    """Whether the kernel rounds after every input channel: a depthwise one has a single channel to round after."""
    return isinstance(op, Conv2d) and op.accumulate == "running" and path != "depthwise"


def conv_uses(functions: Collection[Function], paths: Iterable[Path]) -> list[ConvUse]:
    """The variants of these paths, in order, each with all its uses."""
    mine: dict[ConvVariant, list[ConvFunction]] = {}
    for function in functions:
        if isinstance(function, ConvFunction) and function.variant.path in paths:
            mine.setdefault(function.variant, []).append(function)
    uses = []
    for variant, used in sorted(mine.items()):
        windows = [function.window for function in used]
        uses.append(
            ConvUse(
                **{field.name: getattr(variant, field.name) for field in fields(variant)},
                plain=any(function.pool is None for function in used),
                pools=tuple(sorted({function.pool for function in used if function.pool is not None})),
                shapes=tuple(sorted({(w.kernel_w, w.stride_w) for w in windows if _is_unrolled(w)})),
                windows=tuple(
                    sorted({(w.kernel_h, w.kernel_w, w.stride_w) for w in windows if _stays_in_registers(w)})
                ),
            )
        )
    return uses


def conv_declarations(uses: Iterable[ConvUse]) -> tuple[Declaration, ...]:
    """What the header says of these variants."""
    declarations = []
    for use in uses:
        what = f"struct nnkit_conv: {use.path} convolution, {use.x.tag} x {use.w.tag} -> {use.y.tag}"
        if use.plain:
            declarations.append(Declaration(use.name, what))
        for pool in use.pools:
            declarations.append(Declaration(f"{use.name}_{pool.suffix}", f"{what}, then {pool.pool} pool"))
    return tuple(declarations)


def conv_needs(op: Convolution, kernel: ConvKernel, machine: CoreMachine) -> KernelNeeds:
    """Scratch and weight blocks of a convolution."""
    scratch = ((machine.scratch_region, kernel.scratch_bytes),) if kernel.scratch_bytes else ()
    gathers = kernel.path in ("rows", "transposed")
    return KernelNeeds(
        scratch_bytes=scratch,
        weight_block_bytes=(block_bytes(op, kernel.taps),) * kernel.blocks,
        min_blocks_per_chunk=min(kernel.blocks, _CHUNK_CHANNELS // LANES) if gathers else 1,
        repacks_input=gathers,
    )


def gathering_scratch(taps: int, element_bytes: int, machine: CoreMachine) -> tuple[int, int]:
    """(pixels gathered at once, bytes of one part for them) of kernels that gather the taps of pixels."""
    tile = TILE if align4(taps * TILE * element_bytes) <= machine.scratch_bytes else 1
    return tile, align4(taps * tile * element_bytes)


def parts_with_scratch(row_bytes: int, machine: CoreMachine) -> int:
    """Parts that can run at once with this scratch each. Where not even one fits the planner reports it."""
    return min(machine.cores, max(1, machine.scratch_bytes // row_bytes)) if row_bytes else machine.cores


def conv_call(
    op: Convolution,
    program: Program,
    kernel: ConvKernel,
    function: ConvFunction,
    name: str,
    *,
    pool: Constant | None = None,
    phases: Constant | None = None,
) -> Call:
    """The call of a convolution, with the constants that its own points to."""
    g, taps_per_channel = kernel.geometry, op.window.kernel_h * op.window.kernel_w
    running = function.variant.running
    # A direct full-window convolution is seen as a pointwise one: each of its taps is an input channel of its own.
    full_window = kernel.path == "direct" and taps_per_channel > 1
    pointed = tuple(constant for constant in (pool, phases) if constant is not None)
    constant = Constant(
        "struct nnkit_conv",
        name,
        (
            (f"{g.groups}", "groups; channels are per group"),
            (f"{g.in_channels}, {g.in_h}, {g.in_w}", "input channels, height, width"),
            (f"{g.out_channels}, {g.out_h}, {g.out_w}", "output channels, height, width"),
            window_line(Window(1, 1) if full_window else op.window),
            (f"{op.pad_value if isinstance(op, Conv2d) else 0}", "pad value"),
            (f"{taps_per_channel if running else kernel.taps}", "taps" + (" per input channel" if running else "")),
            (f"{g.blocks_per_group}", "weight blocks per group"),
            (f"{block_bytes(op, kernel.taps)}", "bytes of a block"),
            *stage_lines(op.stage, program.tensors[op.output].fixed, clip_last=running),
            (f"{kernel.max_parts}", "parts at most"),
            (f"{int(kernel.split_blocks)}", "parts divide blocks (1) or pixels (0)"),
            (f"{kernel.tile_pixels}, {kernel.row_bytes}", "pixels gathered at once; bytes for them"),
            (f"{kernel.band_rows}, {kernel.band_width}", "depthwise band: output rows, elements per row"),
            (f"{kernel.pool_blocks}, {kernel.pool_rows}", "pool: blocks in L1, rows kept"),
            (f"&{pool.name}" if pool is not None else "0", "pool"),
            (phases.name.removesuffix("[]") if phases is not None else "0", "phases"),
        ),
    )
    return Call(function.name, name, (0,), (*pointed, constant))


def _is_unrolled(window: Window) -> bool:
    return window.dilation_w == 1 and 1 < window.kernel_w <= _MOST_UNROLLED and window.stride_w <= 2


def _stays_in_registers(window: Window) -> bool:
    small = window.dilation_h == 1 and window.kernel_h * window.kernel_w <= _MOST_UNROLLED_TAPS
    return small and _is_unrolled(window)
