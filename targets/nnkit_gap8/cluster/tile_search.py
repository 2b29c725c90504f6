"""The tiles of least modelled cycles.

The candidates are uniform cuts: every number of rows for a tile, for each number of tiles across the channels that
make so many, both orders, and the input's channels at once or in slices of any size; the last tile takes what is
left. Each has a lower bound in closed form (what all tiles compute, and what all transfers take); in order of that
bound they are walked tile by tile until none that is left can be better. The number of slices grows until what each
of them adds is more than there is to gain. The result is the best of all candidates under the model, and
`Tiling.least_cycles` bounds all other cuts, of tiles of unequal sizes too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nnkit.errors import InternalError
from nnkit_gap8.cluster import costs
from nnkit_gap8.cluster.tile_plan import L1Layout, TiledOp, Tiling, layout_of, row_spans
from nnkit_gap8.cluster.tiled_ops import TileCosts


@dataclass(frozen=True)
class Part:
    """Output channels of a layer whose weights are in L2 at once, in so many steps of the network."""

    op: TiledOp
    costs: TileCosts
    channels: int
    steps: int = 1


@dataclass(frozen=True)
class _Cut:
    """slice_groups: as in `Tiling`. keeps: a tile leaves rows in front of a pool to the next."""

    channels: int
    rows: int
    by_rows: bool
    slice_groups: int
    keeps: bool


@dataclass(frozen=True)
class _Tile:
    """A tile, or a slice of one, which stores nothing but for the last slice."""

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


def best_tilings(parts: Sequence[Part], budget_bytes: int) -> list[Tiling] | None:
    """The best cuts of parts that store their weights alike: all with the same slices. None: none fits L1."""
    best = [_best_tiling(part, budget_bytes, 0, math.inf) for part in parts]
    whole = [each for each in best if each is not None]
    chosen = whole if len(whole) == len(parts) else None
    for slice_groups in _slice_sizes(parts):
        total = math.inf if chosen is None else _steps_cycles(parts, chosen)
        least = [_least(part, budget_bytes, slice_groups) * part.steps for part in parts]
        if sum(least) >= total:
            break
        sliced = []
        for part, own in zip(parts, least, strict=True):
            limit = (total - sum(least) + own) / part.steps
            tiling = _best_tiling(part, budget_bytes, slice_groups, limit)
            if tiling is None:
                break
            sliced.append(tiling)
        if len(sliced) == len(parts) and _steps_cycles(parts, sliced) < total:
            chosen = sliced
    return chosen


def _steps_cycles(parts: Sequence[Part], tilings: Sequence[Tiling]) -> float:
    return sum(part.steps * tiling.cycles for part, tiling in zip(parts, tilings, strict=True))


def _slice_sizes(parts: Sequence[Part]) -> list[int]:
    """Groups of the first of two, three, ... slices."""
    slices = [part.op.slices for part in parts]
    if slices[0] is None or any(each is None or each.groups != slices[0].groups for each in slices):
        return []
    return [size for size in reversed(_even(slices[0].groups, 1)) if size < slices[0].groups]


def _best_tiling(part: Part, budget_bytes: int, slice_groups: int, limit: float) -> Tiling | None:
    """The best cut with such slices (0: none) of fewer cycles than `limit`; None: there is none that fits L1."""
    op = part.op
    cuts: list[tuple[float, int, _Walk, L1Layout]] = []
    for walk in _walks(part, slice_groups):
        bound = walk.bound()
        if bound + costs.LAYER_CYCLES >= limit:
            continue
        cut = walk.cut
        layout = layout_of(op, cut.channels, cut.rows, part.channels, cut.by_rows, slice_groups)
        if layout.peak_bytes <= budget_bytes:
            cuts.append((bound, len(cuts), walk, layout))
    best: tuple[float, _Cut, L1Layout, list[_Tile]] | None = None
    for bound, _, walk, layout in sorted(cuts, key=lambda each: each[:2]):
        if best is not None and bound >= best[0]:
            break
        tiles = list(walk.tiles())
        cycles = _overlapped(tiles)
        if best is None or cycles < best[0]:
            best = cycles, walk.cut, layout, tiles
    if best is None:
        return None
    cycles, cut, layout, tiles = best
    return Tiling(
        op=op,
        channels=cut.channels,
        rows=cut.rows,
        by_rows=cut.by_rows,
        slice_groups=slice_groups,
        layout=layout,
        tiles=len(tiles),
        dma_bytes=sum(sum(tile.load_bytes) + tile.store_bytes for tile in tiles),
        compute_cycles=sum(tile.image + tile.compute for tile in tiles),
        dma_cycles=sum(_transfers(tile.load_bytes) + _stored(tile) for tile in tiles),
        cycles=cycles + costs.LAYER_CYCLES,
        candidates=len(cuts),
        least_cycles=_least(part, budget_bytes, 0),
    )


def _walks(part: Part, slice_groups: int) -> Iterator[_Walk]:
    """All cuts. With slices every tile brings input and weights anew, so that the order of tiles saves nothing."""
    op = part.op
    for channels in _even(part.channels, 4) if op.cut_channels else [part.channels]:
        for by_rows in (False,) if slice_groups else (False, True):
            keeps = op.keeps_rows(by_rows, -(-part.channels // channels))
            for rows in range(1, op.height + 1):
                if by_rows and (rows == op.height or channels >= part.channels):
                    break
                yield _Walk(op, part.costs, part.channels, _Cut(channels, rows, by_rows, slice_groups, keeps))


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


@lru_cache(maxsize=8192)
def _span_counts(op: TiledOp, rows: int, keeps: bool) -> tuple[tuple[_Span, int], ...]:
    return tuple(Counter(_spans(op, rows, keeps)).items())


@dataclass(frozen=True)
class _Walk:
    op: TiledOp
    costs: TileCosts
    all_channels: int
    cut: _Cut

    def tiles(self) -> Iterator[_Tile]:
        """The tiles in order."""
        cut = self.cut
        spans = _spans(self.op, cut.rows, cut.keeps)
        channels = [min(cut.channels, self.all_channels - c) for c in range(0, self.all_channels, cut.channels)]
        order = [(s, c) for s in range(len(spans)) for c in range(len(channels))]
        if not cut.by_rows:
            order.sort(key=lambda pair: (pair[1], pair[0]))
        before: tuple[int, int] | None = None
        for pair in order:
            new_rows = before is None or before[0] != pair[0]
            new_channels = before is None or before[1] != pair[1]
            if cut.slice_groups:
                yield from self._slices(spans[pair[0]], channels[pair[1]])
            else:
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

    def _slices(self, span: _Span, channels: int) -> Iterator[_Tile]:
        slices = self.op.slices
        sizes = [] if slices is None else slices.sizes(self.cut.slice_groups)
        for index, groups in enumerate(sizes):
            yield self._slice(span, channels, groups, index == 0, index + 1 == len(sizes))

    def _slice(self, span: _Span, channels: int, groups: int, first: bool, last: bool) -> _Tile:
        slices, sliced, source = self.op.slices, self.costs.slices, self.op.inputs[0]
        if slices is None or sliced is None:
            raise InternalError("a layer whose input channels cannot be cut is cut", where=self.op.name)
        weights = -(-channels // 4) * slices.weight_bytes(groups, first)
        read = groups * slices.lanes
        if last:  # whose last group may not be full
            read -= slices.groups * slices.lanes - (source.channels or 0)
        image = sliced.image(span.made, groups) if span.made else 0.0
        loads = (read * span.read[0] * source.row_bytes, weights) if span.made else (weights,)
        compute = costs.TILE_CYCLES + sliced.compute(channels, span.made, groups)
        if not last:
            return _Tile(image, compute, loads, 0)
        return _Tile(
            image, compute + sliced.pool(channels, span.rows), loads, channels * span.rows * self.op.row_bytes
        )

    def _slices_bound(self) -> float:
        """`bound` with slices: of a tile's, all but the first and the last are alike."""
        op, cut = self.op, self.cut
        across = -(-self.all_channels // cut.channels)
        last = self.all_channels - (across - 1) * cut.channels
        sizes = [] if op.slices is None else op.slices.sizes(cut.slice_groups)
        kinds = [(sizes[0], True, False, 1), (sizes[0], False, False, len(sizes) - 2), (sizes[-1], False, True, 1)]
        compute = moved = 0.0
        for span, count in _span_counts(op, cut.rows, cut.keeps):
            for channels, times in ((cut.channels, across - 1), (last, 1)):
                if not times:
                    continue
                for groups, first, ends, alike in kinds:
                    tile = self._slice(span, channels, groups, first, ends)
                    compute += count * times * alike * (tile.image + tile.compute)
                    moved += count * times * alike * (sum(tile.load_bytes) + tile.store_bytes)
        return max(compute, moved / costs.DMA_BYTES)

    def bound(self) -> float:
        """Less than or equal to the cycles: all computation, and all transfers one after another."""
        op, cut = self.op, self.cut
        if cut.slice_groups:
            return self._slices_bound()
        down, across = -(-op.height // cut.rows), -(-self.all_channels // cut.channels)
        last = self.all_channels - (across - 1) * cut.channels
        whole = op.inputs[0].channels is not None  # every tile of the same rows reads the same input
        inputs = 1 if whole and (cut.by_rows or across == 1 or down == 1) else across
        compute = moved = 0.0
        for span, count in _span_counts(op, cut.rows, cut.keeps):
            for channels, times in ((cut.channels, across - 1), (last, 1)):
                compute += count * times * (costs.TILE_CYCLES + self.costs.compute(channels, span.made, span.rows))
            compute += count * inputs * (self.costs.image(span.made) if span.made else 0.0)
            for source, rows in zip(op.inputs, span.read, strict=True):
                part = (source.channels * inputs) if source.channels is not None else self.all_channels
                moved += count * part * rows * source.row_bytes
        weights = -(-self.all_channels // 4) * op.block_bytes * (down if cut.by_rows else 1)
        stored = self.all_channels * op.height * op.row_bytes
        return max(compute, (stored + weights + moved) / costs.DMA_BYTES)


def _least(part: Part, budget_bytes: int, slice_groups: int) -> float:
    """What no cut with such slices (0: with or without) can do with less.

    All computation without a pause, every byte once, tiles whose outputs fit L1.
    """
    op, channels = part.op, part.channels
    stored = channels * op.height * op.row_bytes
    read = sum(
        (source.channels or channels) * op.input_rows(index, 0, op.height, False) * source.row_bytes
        for index, source in enumerate(op.inputs)
    )
    moved = stored + read + -(-channels // 4) * op.block_bytes
    tiles = -(-stored // budget_bytes)
    compute = part.costs.least(channels)
    if op.slices is not None and part.costs.slices is not None and slice_groups:
        slices = -(-op.slices.groups // slice_groups)
        tiles *= slices
        compute += (slices - 1) * part.costs.slices.least(channels)
    return max(compute + tiles * costs.TILE_CYCLES, moved / costs.DMA_BYTES) + costs.LAYER_CYCLES


def _transfers(sizes: tuple[int, ...]) -> float:
    return sum(costs.dma_cycles(size) for size in sizes)


def _stored(tile: _Tile) -> float:
    return costs.dma_cycles(tile.store_bytes) if tile.store_bytes else 0.0


def _overlapped(tiles: list[_Tile]) -> float:
    """The first load, then of each tile the longer of its work and the transfers beside it, then the last store.

    The next tile's load begins when this one's image is made, the last one's store with the tile.
    """
    cycles = _transfers(tiles[0].load_bytes)
    for index, tile in enumerate(tiles):
        load = _transfers(tiles[index + 1].load_bytes) if index + 1 < len(tiles) else 0.0
        store = _stored(tiles[index - 1]) if index else 0.0
        cycles += max(tile.image + max(tile.compute, load), store + load)
    return cycles + _stored(tiles[-1])
