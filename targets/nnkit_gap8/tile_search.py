"""The tiles of least modelled cycles.

The candidates are all even cuts: for each number of tiles down and across the rows and channels that make so many,
both orders, every division of cores between pixels and channels. Each has a lower bound in closed form (what all
tiles compute, and what all transfers take); in order of that bound they are walked tile by tile until none that is
left can be better. The result is the best of all candidates under the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnkit_gap8 import cluster_costs as costs
from nnkit_gap8.tile_plan import L1Layout, TiledOp, Tiling, layout_of
from nnkit_gap8.tiled_ops import TileCosts


@dataclass(frozen=True)
class _Cut:
    channels: int
    rows: int
    by_rows: bool
    pixel_parts: int
    layout: L1Layout


@dataclass(frozen=True)
class _Tile:
    compute: float
    load_bytes: tuple[int, ...]
    store_bytes: int


def best_tiling(op: TiledOp, tile_costs: TileCosts, all_channels: int, budget_bytes: int) -> Tiling | None:
    """The best cut of `all_channels` output channels (those whose weights are in L2); None: none fits L1."""
    cuts = [
        (_Walk(op, tile_costs, all_channels, cut).bound(), index, cut)
        for index, cut in enumerate(_cuts(op, tile_costs, all_channels, budget_bytes))
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
        pixel_parts=cut.pixel_parts,
        layout=cut.layout,
        tiles=len(tiles),
        dma_bytes=sum(sum(tile.load_bytes) + tile.store_bytes for tile in tiles),
        compute_cycles=sum(tile.compute for tile in tiles),
        dma_cycles=sum(_transfers(tile.load_bytes) + costs.dma_cycles(tile.store_bytes) for tile in tiles),
        cycles=cycles + costs.LAYER_CYCLES,
        candidates=len(cuts),
        proven=True,
    )


def _cuts(op: TiledOp, tile_costs: TileCosts, all_channels: int, budget_bytes: int) -> Iterator[_Cut]:
    rows_choices = _even(op.height, 1)
    channel_choices = _even(all_channels, 4) if op.cut_channels else [all_channels]
    for rows in rows_choices:
        for channels in channel_choices:
            layout = layout_of(op, channels, rows, all_channels)
            if layout.peak_bytes > budget_bytes:
                continue
            orders = (False, True) if rows < op.height and channels < all_channels else (False,)
            for by_rows in orders:
                for parts in tile_costs.parts:
                    yield _Cut(channels, rows, by_rows, parts, layout)


def _even(total: int, unit: int) -> list[int]:
    """Sizes of the first of n parts of `total` for all n, in whole units."""
    units = -(-total // unit)
    return sorted({min(-(-units // count) * unit, total) for count in range(1, units + 1)})


@dataclass(frozen=True)
class _Walk:
    op: TiledOp
    costs: TileCosts
    all_channels: int
    cut: _Cut

    def tiles(self) -> Iterator[_Tile]:
        """The tiles in order."""
        op, cut = self.op, self.cut
        spans = [(first, min(first + cut.rows, op.height)) for first in range(0, op.height, cut.rows)]
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

    def _tile(self, span: tuple[int, int], channels: int, new_rows: bool, new_channels: bool) -> _Tile:
        op = self.op
        first, last = op.kernel_rows(*span)
        compute = costs.TILE_CYCLES + self.costs.compute(
            channels, last - first, span[1] - span[0], self.cut.pixel_parts
        )
        loads = []
        if new_rows or (new_channels and op.inputs[0].channels is None):
            compute += self.costs.image(last - first)
            loads = [
                (source.channels or channels) * op.input_rows(index, *span) * source.row_bytes
                for index, source in enumerate(op.inputs)
            ]
        if new_channels and op.block_bytes:
            loads.append(-(-channels // 4) * op.block_bytes)
        return _Tile(compute, tuple(loads), channels * (span[1] - span[0]) * op.row_bytes)

    def bound(self) -> float:
        """Less than or equal to the cycles: all computation, and all transfers one after another."""
        op, cut = self.op, self.cut
        down, across = -(-op.height // cut.rows), -(-self.all_channels // cut.channels)
        if down * across <= 6:
            return _overlapped(list(self.tiles()))
        last_rows, last_channels = op.height - (down - 1) * cut.rows, self.all_channels - (across - 1) * cut.channels
        compute = 0.0
        for rows, row_count in ((cut.rows, down - 1), (last_rows, 1)):
            for channels, count in ((cut.channels, across - 1), (last_channels, 1)):
                kernel = self._least_kernel_rows(rows)
                each = costs.TILE_CYCLES + self.costs.compute(channels, kernel, rows, cut.pixel_parts)
                compute += row_count * count * each
        if op.inputs[0].channels is None:
            loads = 1
        else:
            loads = 1 if cut.by_rows else across
        stored = self.all_channels * op.height * op.row_bytes
        read = sum(
            (source.channels or self.all_channels) * op.input_rows(i, 0, op.height) * source.row_bytes
            for i, source in enumerate(op.inputs)
        )
        weights = -(-self.all_channels // 4) * op.block_bytes * (down if cut.by_rows else 1)
        return max(compute, (stored + weights + loads * read) / 7.9)

    def _least_kernel_rows(self, rows: int) -> int:
        if self.op.pool is None:
            return rows
        return max(1, (rows - 1) * self.op.pool.stride + self.op.pool.span - 2 * self.op.pool.span)


def _transfers(sizes: tuple[int, ...]) -> float:
    return sum(costs.dma_cycles(size) for size in sizes)


def _overlapped(tiles: list[_Tile]) -> float:
    """The first load, then of each tile the longer of its work and the transfers beside it, then the last store."""
    cycles = _transfers(tiles[0].load_bytes)
    for index, tile in enumerate(tiles):
        beside = _transfers(tiles[index + 1].load_bytes) if index + 1 < len(tiles) else 0.0
        if index:
            beside += costs.dma_cycles(tiles[index - 1].store_bytes)
        cycles += max(tile.compute, beside)
    return cycles + costs.dma_cycles(tiles[-1].store_bytes)
