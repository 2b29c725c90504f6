"""The tiles of least modelled cycles.

The candidates are uniform cuts: every number of rows for a tile, for each number of tiles across the channels that
make so many, both orders; the last tile takes what is left. Each has a lower bound in closed form (what all tiles
compute, and what all transfers take); in order of that bound they are walked tile by tile until none that is left can
be better. The result is the best of all candidates under the model, and `Tiling.least_cycles` bounds all other cuts,
of tiles of unequal sizes too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from nnkit_gap8 import cluster_costs as costs
from nnkit_gap8.tile_plan import L1Layout, TiledOp, Tiling, layout_of, row_spans
from nnkit_gap8.tiled_ops import TileCosts


@dataclass(frozen=True)
class _Cut:
    channels: int
    rows: int
    by_rows: bool
    layout: L1Layout


@dataclass(frozen=True)
class _Tile:
    image: float
    compute: float
    load_bytes: tuple[int, ...]
    store_bytes: int


@dataclass(frozen=True)
class _Span:
    """A tile's rows: of the output, made by the first kernel, read of each input."""

    rows: int
    made: int
    read: tuple[int, ...]


def best_tiling(op: TiledOp, tile_costs: TileCosts, all_channels: int, budget_bytes: int) -> Tiling | None:
    """The best cut of `all_channels` output channels (those whose weights are in L2); None: none fits L1."""
    cuts = [
        (_Walk(op, tile_costs, all_channels, cut).bound(), index, cut)
        for index, cut in enumerate(_cuts(op, all_channels, budget_bytes))
    ]
    best: tuple[float, _Cut, list[_Tile]] | None = None
    for bound, _, cut in sorted(cuts, key=lambda each: each[:2]):
        if best is not None and bound >= best[0]:
            break
        tiles = list(_Walk(op, tile_costs, all_channels, cut).tiles())
        cycles = _overlapped(tiles)
        if best is None or cycles < best[0]:
            best = cycles, cut, tiles
    if best is None:
        return None
    cycles, cut, tiles = best
    return Tiling(
        op=op,
        channels=cut.channels,
        rows=cut.rows,
        by_rows=cut.by_rows,
        layout=cut.layout,
        tiles=len(tiles),
        dma_bytes=sum(sum(tile.load_bytes) + tile.store_bytes for tile in tiles),
        compute_cycles=sum(tile.image + tile.compute for tile in tiles),
        dma_cycles=sum(_transfers(tile.load_bytes) + costs.dma_cycles(tile.store_bytes) for tile in tiles),
        cycles=cycles + costs.LAYER_CYCLES,
        candidates=len(cuts),
        least_cycles=_least(op, tile_costs, all_channels, budget_bytes) + costs.LAYER_CYCLES,
    )


def _cuts(op: TiledOp, all_channels: int, budget_bytes: int) -> Iterator[_Cut]:
    channel_choices = _even(all_channels, 4) if op.cut_channels else [all_channels]
    for channels in channel_choices:
        for by_rows in (False, True):
            for rows in range(1, op.height + 1):
                if by_rows and (rows == op.height or channels >= all_channels):
                    break
                layout = layout_of(op, channels, rows, all_channels, by_rows)
                if layout.peak_bytes <= budget_bytes:
                    yield _Cut(channels, rows, by_rows, layout)


def _even(total: int, unit: int) -> list[int]:
    """Sizes of the first of n parts of `total` for all n, in whole units."""
    units = -(-total // unit)
    return sorted({min(-(-units // count) * unit, total) for count in range(1, units + 1)})


@lru_cache(maxsize=8192)
def _spans(op: TiledOp, rows: int, keeps: bool) -> tuple[_Span, ...]:
    spans = []
    for first, last in row_spans(op, rows):
        begin, end = op.new_rows(first, last, keeps)
        read = tuple(op.input_rows(index, first, last, keeps) for index in range(len(op.inputs)))
        spans.append(_Span(last - first, end - begin, read))
    return tuple(spans)


@dataclass(frozen=True)
class _Walk:
    op: TiledOp
    costs: TileCosts
    all_channels: int
    cut: _Cut

    def tiles(self) -> Iterator[_Tile]:
        """The tiles in order."""
        cut = self.cut
        spans = _spans(self.op, cut.rows, cut.layout.keeps)
        channels = [min(cut.channels, self.all_channels - c) for c in range(0, self.all_channels, cut.channels)]
        order = [(s, c) for s in range(len(spans)) for c in range(len(channels))]
        if not cut.by_rows:
            order.sort(key=lambda pair: (pair[1], pair[0]))
        before: tuple[int, int] | None = None
        for pair in order:
            new_rows = before is None or before[0] != pair[0]
            new_channels = before is None or before[1] != pair[1]
            yield self._tile(spans[pair[0]], channels[pair[1]], new_rows, new_channels)
            before = pair

    def _tile(self, span: _Span, channels: int, new_rows: bool, new_channels: bool) -> _Tile:
        op = self.op
        image = 0.0
        loads = []
        if span.made and (new_rows or (new_channels and op.inputs[0].channels is None)):
            image = self.costs.image(span.made)
            loads = [
                (source.channels or channels) * rows * source.row_bytes
                for source, rows in zip(op.inputs, span.read, strict=True)
            ]
        if new_channels and op.block_bytes:
            loads.append(-(-channels // 4) * op.block_bytes)
        compute = costs.TILE_CYCLES + self.costs.compute(channels, span.made, span.rows)
        return _Tile(image, compute, tuple(loads), channels * span.rows * op.row_bytes)

    def bound(self) -> float:
        """Less than or equal to the cycles: all computation, and all transfers one after another."""
        op, cut = self.op, self.cut
        spans = Counter(_spans(op, cut.rows, cut.layout.keeps))
        down, across = -(-op.height // cut.rows), -(-self.all_channels // cut.channels)
        last = self.all_channels - (across - 1) * cut.channels
        whole = op.inputs[0].channels is not None  # every tile of the same rows reads the same input
        inputs = 1 if whole and (cut.by_rows or across == 1 or down == 1) else across
        compute = moved = 0.0
        for span, count in spans.items():
            for channels, times in ((cut.channels, across - 1), (last, 1)):
                compute += count * times * (costs.TILE_CYCLES + self.costs.compute(channels, span.made, span.rows))
            compute += count * inputs * (self.costs.image(span.made) if span.made else 0.0)
            for source, rows in zip(op.inputs, span.read, strict=True):
                part = (source.channels * inputs) if source.channels is not None else self.all_channels
                moved += count * part * rows * source.row_bytes
        weights = -(-self.all_channels // 4) * op.block_bytes * (down if cut.by_rows else 1)
        stored = self.all_channels * op.height * op.row_bytes
        return max(compute, (stored + weights + moved) / costs.DMA_BYTES)


def _least(op: TiledOp, tile_costs: TileCosts, all_channels: int, budget_bytes: int) -> float:
    """What no cut can do with less: all computation without a pause, every byte once, tiles whose outputs fit L1."""
    stored = all_channels * op.height * op.row_bytes
    read = sum(
        (source.channels or all_channels) * op.input_rows(index, 0, op.height, False) * source.row_bytes
        for index, source in enumerate(op.inputs)
    )
    moved = stored + read + -(-all_channels // 4) * op.block_bytes
    tiles = -(-stored // budget_bytes)
    return max(tile_costs.least(all_channels) + tiles * costs.TILE_CYCLES, moved / costs.DMA_BYTES)


def _transfers(sizes: tuple[int, ...]) -> float:
    return sum(costs.dma_cycles(size) for size in sizes)


def _overlapped(tiles: list[_Tile]) -> float:
    """The first load, then of each tile the longer of its work and the transfers beside it, then the last store.

    The next tile's load begins when this one's image is made, the last one's store with the tile.
    """
    cycles = _transfers(tiles[0].load_bytes)
    for index, tile in enumerate(tiles):
        load = _transfers(tiles[index + 1].load_bytes) if index + 1 < len(tiles) else 0.0
        store = costs.dma_cycles(tiles[index - 1].store_bytes) if index else 0.0
        cycles += max(tile.image + max(tile.compute, load), store + load)
    return cycles + costs.dma_cycles(tiles[-1].store_bytes)
