"""How every layer is cut into tiles that fit L1: frozen between plan and emission, with a checker of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from nnkit.errors import InternalError


@dataclass(frozen=True)
class Rows:
    """Rows first .. last (exclusive) need first * stride - pad .. (last - 1) * stride - pad + span of `height`."""

    height: int
    stride: int = 1
    pad: int = 0
    span: int = 1

    def before(self, first: int, last: int) -> tuple[int, int]:
        """The rows that exist of those that `first` .. `last` need."""
        begin = max(0, first * self.stride - self.pad)
        return begin, max(begin, min(self.height, (last - 1) * self.stride - self.pad + self.span))


@dataclass(frozen=True)
class TileInput:
    """An input as tiles read it. channels: all of them for every tile; None: those of the tile's output."""

    channels: int | None
    row_bytes: int
    rows: Rows


@dataclass(frozen=True)
class TiledOp:
    """The shape of a layer's tiles: what one of so many output rows and channels reads, writes and needs beside.

    inputs: all with the same rows or a single row. pool: the output's rows from the convolution's; None: no pool.
    row_bytes: of one channel's output row; band_row_bytes: of the row in front of the pool.
    block_bytes: weights of 4 output channels; 0: none. image_row_bytes: of a packed convolution's image; 0: none.
    cut_channels: whether tiles may hold some of the channels. scratch_bytes: of the kernel, for every tile the same.
    """

    name: str
    channels: int
    height: int
    width: int
    row_bytes: int
    inputs: tuple[TileInput, ...]
    pool: Rows | None = None
    band_row_bytes: int = 0
    block_bytes: int = 0
    image_row_bytes: int = 0
    image_rows: Rows | None = None
    cut_channels: bool = True
    scratch_bytes: int = 0

    def kernel_rows(self, first: int, last: int) -> tuple[int, int]:
        """Rows that the first kernel makes for output rows `first` .. `last`: those in front of a pool."""
        return (first, last) if self.pool is None else self.pool.before(first, last)

    def input_rows(self, index: int, first: int, last: int) -> int:
        """Rows of an input that output rows `first` .. `last` need."""
        begin, end = self.inputs[index].rows.before(*self.kernel_rows(first, last))
        return end - begin


@dataclass(frozen=True)
class L1Layout:
    """Offsets of a layer's buffers in L1, in bytes; -1: there is none. Two of a kind take turns, or are the same."""

    inputs: tuple[tuple[int, int], ...]
    weights: tuple[int, int]
    outputs: tuple[int, int]
    image: int
    band: int
    scratch: int
    spans: tuple[tuple[str, int, int], ...]
    peak_bytes: int


@dataclass(frozen=True)
class Tiling:
    """How a step of one layer is cut.

    channels, rows: of the output, in a tile. by_rows: channels run inside rows. pixel_parts: of a packed convolution.
    dma_bytes: both ways between L2 and L1. compute_cycles, dma_cycles: the sums; cycles: with their overlap.
    candidates: how many cuts were compared; proven: whether none of the others can be better under the model.
    """

    op: TiledOp
    channels: int
    rows: int
    by_rows: bool
    pixel_parts: int
    layout: L1Layout
    tiles: int
    dma_bytes: int
    compute_cycles: float
    dma_cycles: float
    cycles: float
    candidates: int
    proven: bool

    @property
    def bound(self) -> str:
        """Which of the two decides: `compute` or `dma`."""
        return "compute" if self.compute_cycles >= self.dma_cycles else "dma"


@dataclass(frozen=True)
class TilePlan:
    """The tilings of all steps by the step's index, and why the other layers run on L2, by layer.

    l3_cycles: of each step, what its fetches from L3 take. l1_bytes: the largest layout.
    """

    budget_bytes: int
    cores: int
    steps: Mapping[int, Tiling]
    untiled: Mapping[str, str]
    l3_cycles: Mapping[int, float]

    def __post_init__(self) -> None:
        for name in ("steps", "untiled", "l3_cycles"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def l1_bytes(self) -> int:
        """What the tiles take of L1."""
        return max((tiling.layout.peak_bytes for tiling in self.steps.values()), default=0)


def buffer_bytes(op: TiledOp, channels: int, rows: int) -> dict[str, int]:
    """The largest tile's bytes of each kind of buffer; `input0`, `input1`, `weights`, `output`, `image`, `band`."""
    spans = list(row_spans(op, rows))
    sizes = {}
    for index, source in enumerate(op.inputs):
        most = max(op.input_rows(index, first, last) for first, last in spans)
        sizes[f"input{index}"] = (source.channels or channels) * most * source.row_bytes
    blocks = -(-channels // 4)
    sizes["weights"] = blocks * op.block_bytes
    # A packed convolution writes whole blocks of 4 channels.
    written = blocks * 4 if op.image_row_bytes else channels
    sizes["output"] = (channels if op.pool is not None else written) * rows * op.row_bytes
    kernel = max(last - first for first, last in (op.kernel_rows(*span) for span in spans))
    sizes["image"] = 0
    if op.image_rows is not None:
        sizes["image"] = ((kernel - 1) * op.image_rows.stride + op.image_rows.span) * op.image_row_bytes
    sizes["band"] = written * kernel * op.band_row_bytes if op.pool is not None else 0
    sizes["scratch"] = op.scratch_bytes
    return sizes


def row_spans(op: TiledOp, rows: int) -> Iterator[tuple[int, int]]:
    """Output rows of every tile from the top."""
    for first in range(0, op.height, rows):
        yield first, min(first + rows, op.height)


def layout_of(op: TiledOp, channels: int, rows: int, all_channels: int) -> L1Layout:
    """Buffers one after another, each aligned to 4 bytes; two of what changes while it is in use."""
    down, across = -(-op.height // rows), -(-all_channels // channels)
    sizes = buffer_bytes(op, channels, rows)
    spans: list[tuple[str, int, int]] = []
    end = 0

    def take(name: str, twice: bool) -> tuple[int, int]:
        nonlocal end
        size = -(-sizes[name] // 4) * 4
        if not size:
            return -1, -1
        places = []
        for turn in range(2 if twice else 1):
            spans.append((f"{name}.{turn}", end, end + size))
            places.append(end)
            end += size
        return places[0], places[-1]

    inputs = tuple(
        take(f"input{index}", down > 1 or (across > 1 and source.channels is None))
        for index, source in enumerate(op.inputs)
    )
    weights = take("weights", across > 1)
    outputs = take("output", down * across > 1)
    image, band, scratch = (take(name, False)[0] for name in ("image", "band", "scratch"))
    return L1Layout(inputs, weights, outputs, image, band, scratch, tuple(spans), end)


def check_tile_plan(plan: TilePlan) -> None:
    """A layer's buffers are apart, inside the budget, as large as its largest tile needs. Raises InternalError."""
    for tiling in plan.steps.values():
        op, layout = tiling.op, tiling.layout
        if layout.peak_bytes > plan.budget_bytes:
            raise InternalError(f"tiles take {layout.peak_bytes} of {plan.budget_bytes} bytes of L1", where=op.name)
        ordered = sorted(layout.spans, key=lambda span: span[1])
        for (name, _, end), (other, start, _) in pairwise(ordered):
            if start < end:
                raise InternalError(f"{name} and {other} overlap in L1", where=op.name)
        sizes = buffer_bytes(op, tiling.channels, tiling.rows)
        for name, start, end in layout.spans:
            if end - start < sizes[name.split(".")[0]] or end > layout.peak_bytes:
                raise InternalError(f"{name} has {end - start} bytes", where=op.name)
