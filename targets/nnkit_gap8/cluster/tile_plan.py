"""How every layer is cut into tiles that fit L1: frozen between plan and emission, with a checker of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
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
class Slices:
    """How the input channels of a packed convolution come in slices, in groups of `lanes` channels.

    groups: of all channels; a slice has some of them, the last one what is left. taps: entries of the image that make
    an output value. head_bytes: in front of the first slice's weights of 4 output channels. columns: of the sums.
    """

    groups: int
    lanes: int
    taps: int
    head_bytes: int
    columns: int

    def weight_bytes(self, groups: int, first: bool) -> int:
        """Bytes of 4 output channels' weights in a slice of so many groups."""
        return groups * self.taps * 16 + (self.head_bytes if first else 0)

    def sizes(self, slice_groups: int) -> list[int]:
        """The groups of every slice."""
        return [min(slice_groups, self.groups - at) for at in range(0, self.groups, slice_groups)]


@dataclass(frozen=True)
class TiledOp:
    """The shape of a layer's tiles: what one of so many output rows and channels reads, writes and needs beside.

    inputs: all with the same rows or a single row. pool: the output's rows from the convolution's; None: no pool.
    row_bytes: of one channel's output row; band_row_bytes: of the row in front of the pool.
    block_bytes: weights of 4 output channels; 0: none. image_row_bytes: of a packed convolution's image; 0: none.
    image_by_channel: image_row_bytes are of one channel, and a tile's image has its own channels alone.
    cut_channels: whether tiles may hold some of the channels. scratch_bytes: of the kernel, for every tile the same.
    slices: of the input channels; None: a tile has all of them.
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
    image_by_channel: bool = False
    cut_channels: bool = True
    scratch_bytes: int = 0
    slices: Slices | None = None

    def kernel_rows(self, first: int, last: int) -> tuple[int, int]:
        """Rows that the first kernel makes for output rows `first` .. `last`: those in front of a pool."""
        return (first, last) if self.pool is None else self.pool.before(first, last)

    def new_rows(self, first: int, last: int, keeps: bool) -> tuple[int, int]:
        """Rows that the first kernel makes; keeps: but those that the tile above has made, if there is one."""
        begin, end = self.kernel_rows(first, last)
        if keeps and first > 0 and self.pool is not None:
            begin = max(begin, min(end, self.kernel_rows(0, first)[1]))
        return begin, end

    def input_rows(self, index: int, first: int, last: int, keeps: bool) -> int:
        """Rows of an input that output rows `first` .. `last` need; keeps: as for `new_rows`."""
        new = self.new_rows(first, last, keeps)
        if new[0] == new[1]:
            return 0
        begin, end = self.inputs[index].rows.before(*new)
        return end - begin

    def keeps_rows(self, by_rows: bool, across: int) -> bool:
        """Whether a tile leaves rows in front of the pool to the next: it has the same channels below."""
        return self.pool is not None and not (by_rows and across > 1)


@dataclass(frozen=True)
class L1Layout:
    """Offsets of a layer's buffers in L1, in bytes; -1: there is none. Two of a kind take turns, or are the same.

    band_rows: rows of each channel in the band. keeps: a tile leaves its last of them to the next.
    """

    inputs: tuple[tuple[int, int], ...]
    weights: tuple[int, int]
    outputs: tuple[int, int]
    image: int
    band: int
    sums: int
    scratch: int
    spans: tuple[tuple[str, int, int], ...]
    peak_bytes: int
    band_rows: int
    keeps: bool


@dataclass(frozen=True)
class Tiling:
    """How a step of one layer is cut.

    channels, rows: of the output, in a tile. by_rows: channels run inside rows.
    slice_groups: of the input channels in a slice, see `Slices`; 0: a tile has all of them. Slices run innermost.
    dma_bytes: both ways between L2 and L1. compute_cycles, dma_cycles: the sums; cycles: with their overlap.
    candidates: how many cuts were compared: none of the others is better under the model, which is proven.
    least_cycles: what no cut can do with less under the model, whatever the sizes of its tiles.
    """

    op: TiledOp
    channels: int
    rows: int
    by_rows: bool
    slice_groups: int
    layout: L1Layout
    tiles: int
    dma_bytes: int
    compute_cycles: float
    dma_cycles: float
    cycles: float
    candidates: int
    least_cycles: float

    @property
    def bound(self) -> str:
        """Which of the two decides: `compute` or `dma`."""
        return "compute" if self.compute_cycles >= self.dma_cycles else "dma"


@dataclass(frozen=True)
class TilePlan:
    """The tilings of all steps by the step's index, and why the other layers run on L2, by layer.

    l3_cycles: of each step, what its fetches from L3 take. l1_bytes: the largest layout. alone: layers without tiles
    that one core computes.
    """

    budget_bytes: int
    cores: int
    steps: Mapping[int, Tiling]
    untiled: Mapping[str, str]
    l3_cycles: Mapping[int, float]
    alone: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("steps", "untiled", "l3_cycles"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def slice_groups(self) -> Mapping[str, int]:
        """By layer whose input channels come in slices: its groups in a slice, the same in all steps."""
        return {tiling.op.name: tiling.slice_groups for tiling in self.steps.values() if tiling.slice_groups}

    @property
    def l1_bytes(self) -> int:
        """What the tiles take of L1."""
        return max((tiling.layout.peak_bytes for tiling in self.steps.values()), default=0)


def buffer_bytes(op: TiledOp, channels: int, rows: int, keeps: bool, slice_groups: int) -> dict[str, int]:
    """The largest tile's bytes of each kind of buffer: inputs, weights, output, image, band, sums, scratch."""
    most = most_rows(op, rows, keeps)
    blocks = -(-channels // 4)
    # A packed convolution writes whole blocks of 4 channels.
    written = blocks * 4 if op.image_row_bytes else channels
    sizes = {}
    for index, source in enumerate(op.inputs):
        sizes[f"input{index}"] = (source.channels or channels) * most.inputs[index] * source.row_bytes
    sizes["weights"] = blocks * op.block_bytes
    sizes["output"] = (channels if op.pool is not None else written) * rows * op.row_bytes
    sizes["image"] = sizes["sums"] = 0
    if op.image_rows is not None:
        sizes["image"] = ((most.kernel - 1) * op.image_rows.stride + op.image_rows.span) * op.image_row_bytes
        sizes["image"] *= channels if op.image_by_channel else 1
    sizes["band"] = written * most.band * op.band_row_bytes
    sizes["scratch"] = op.scratch_bytes
    if op.slices is not None and slice_groups:
        source = op.inputs[0]
        read = min(slice_groups * op.slices.lanes, source.channels or 0)
        sizes["input0"] = read * most.inputs[0] * source.row_bytes
        sizes["weights"] = blocks * op.slices.weight_bytes(slice_groups, first=True)
        sizes["image"] = sizes["image"] // op.slices.groups * slice_groups
        sizes["sums"] = -(-most.kernel * op.slices.columns // 4) * blocks * 16 * 4  # 4 channels by 4 pixels, 32 bits
    return sizes


@dataclass(frozen=True)
class MostRows:
    """The most rows that a tile has: of each input, made by its first kernel, in front of the pool (0 without)."""

    inputs: tuple[int, ...]
    kernel: int
    band: int


@lru_cache(maxsize=8192)
def most_rows(op: TiledOp, rows: int, keeps: bool) -> MostRows:
    """What tiles of `rows` output rows need at most; keeps: as for `TiledOp.new_rows`."""
    spans = list(row_spans(op, rows))
    made = [op.new_rows(*span, keeps) for span in spans]
    band = [op.kernel_rows(*span) for span in spans] if op.pool is not None else [(0, 0)]
    return MostRows(
        tuple(max(op.input_rows(i, *span, keeps) for span in spans) for i in range(len(op.inputs))),
        max(last - first for first, last in made),
        max(last - first for first, last in band),
    )


def row_spans(op: TiledOp, rows: int) -> Iterator[tuple[int, int]]:
    """Output rows of every tile from the top."""
    for first in range(0, op.height, rows):
        yield first, min(first + rows, op.height)


def layout_of(
    op: TiledOp, channels: int, rows: int, all_channels: int, by_rows: bool, slice_groups: int = 0
) -> L1Layout:
    """Buffers one after another, each aligned to 4 bytes; two of what changes while it is in use.

    An input that becomes an image is in use only before the next one is asked for; the sums of slices stay where they
    are until their tile is complete.
    """
    down, across = -(-op.height // rows), -(-all_channels // channels)
    keeps = op.keeps_rows(by_rows, across)
    sizes = buffer_bytes(op, channels, rows, keeps, slice_groups)
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
        take(f"input{index}", not op.image_row_bytes and (down > 1 or (across > 1 and source.channels is None)))
        for index, source in enumerate(op.inputs)
    )
    weights = take("weights", across > 1 or slice_groups > 0)
    outputs = take("output", down * across > 1)
    image, band, sums, scratch = (take(name, False)[0] for name in ("image", "band", "sums", "scratch"))
    band_rows = most_rows(op, rows, keeps).band
    return L1Layout(inputs, weights, outputs, image, band, sums, scratch, tuple(spans), end, band_rows, keeps)


def least_l1_bytes(op: TiledOp) -> int:
    """What the smallest tile takes: four output channels of one row, in slices where there can be some."""
    sizes = (0, 1) if op.slices is not None else (0,)
    return min(layout_of(op, min(4, op.channels), 1, op.channels, False, size).peak_bytes for size in sizes)


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
        sizes = buffer_bytes(op, tiling.channels, tiling.rows, layout.keeps, tiling.slice_groups)
        for name, start, end in layout.spans:
            if end - start < sizes[name.split(".")[0]] or end > layout.peak_bytes:
                raise InternalError(f"{name} has {end - start} bytes", where=op.name)
