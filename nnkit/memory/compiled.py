"""Branch and bound by the compiled kernels of the extra `[solver]`: thousands of times the nodes of `search`.

Several static orders take turns, each with a growing share of placements: which one goes straight down differs by
instance. What one order refuted the others skip.
"""

from __future__ import annotations

import importlib.util

import numpy as np
from numpy.typing import NDArray

from nnkit.memory.packing import Packing
from nnkit.memory.search import Outcome

Order = NDArray[np.int64]


def is_installed() -> bool:
    """Whether the extra's compiler can be imported."""
    return importlib.util.find_spec("numba") is not None


def applies(packing: Packing) -> bool:
    """Packings with fixed items are left to `search`."""
    return all(item.fixed_offset_bytes is None for item in packing.items)


def fit_within(packing: Packing, capacity_bytes: int, max_nodes: int) -> Outcome:
    """Search for a packing whose peak is at most `capacity_bytes` with at most `max_nodes` placements.

    Deterministic. The answer, where there is one, is that of `search.fit_within`; the offsets may differ.

    Raises:
        ImportError: the extra `[solver]` is not installed.
    """
    from nnkit.memory import kernels_numba as kernels

    items = packing.items
    members = sorted(
        (i for i in range(len(items)) if items[i].size_bytes),
        key=lambda i: (items[i].first_step, items[i].last_step, i),
    )
    result_offsets = [0] * len(items)
    if not members:
        return Outcome(result_offsets, False, 0)
    steps = np.array(packing.section_steps, dtype=np.int64)
    size = np.array([items[i].size_bytes for i in members], dtype=np.int64)
    align = np.array([items[i].alignment_bytes for i in members], dtype=np.int64)
    first_step = np.array([items[i].first_step for i in members], dtype=np.int64)
    last_step = np.array([items[i].last_step for i in members], dtype=np.int64)
    first = np.searchsorted(steps, first_step).astype(np.int64)
    stop = np.searchsorted(steps, last_step, side="right").astype(np.int64)
    grain = int(np.gcd.reduce(align))
    rounded = -(-size // grain) * grain
    spans = [np.flatnonzero((first <= s) & (s < stop)) for s in range(len(steps))]
    slack = np.array([int((rounded - size)[span].max(initial=0)) for span in spans], dtype=np.int64)
    if capacity_bytes < int(size.max()) or any(
        int(rounded[span].sum()) - int(slack[s]) > capacity_bytes for s, span in enumerate(spans)
    ):
        return Outcome(None, True, 0)
    ranks = _ranks(size, last_step - first_step + 1, first, stop, spans)
    count = len(members)
    pool = np.zeros(count * (count + 3), dtype=np.int64)
    trail = np.zeros((2, count * count + 1), dtype=np.int64)
    section = np.zeros((2, len(steps) + 1), dtype=np.int64)
    dead = kernels.empty_dead_ends()
    groups = _groups(first, stop)
    offsets = np.zeros(count, dtype=np.int64)
    nodes = 0
    for begin, end in groups:
        share, turn, answer = 2000, 0, -1
        while answer < 0 and nodes < max_nodes:
            state = np.array([0, min(share, max_nodes - nodes), 0], dtype=np.int64)
            pool[:count] = np.arange(count)
            answer = kernels.place_group(
                begin, end, count, -1, -1, capacity_bytes, pool, size, rounded, slack, align, first, stop,
                ranks[turn], np.zeros(count, dtype=np.int64), offsets, section[0], section[1], trail[0], trail[1],
                dead, state,
            )  # fmt: skip
            nodes += int(state[0])
            turn = (turn + 1) % len(ranks)
            share *= 2 if turn == 0 else 1
        if answer <= 0:
            return Outcome(None, answer == 0, nodes)
    for k, index in enumerate(members):
        result_offsets[index] = int(offsets[k])
    return Outcome(result_offsets, False, nodes)


def _groups(first: Order, stop: Order) -> list[tuple[int, int]]:
    """Ranges of members (in order of time) that share no step with others."""
    groups: list[tuple[int, int]] = []
    begin, until = 0, int(stop[0])
    for k in range(1, len(first)):
        if first[k] >= until:
            groups.append((begin, k))
            begin = k
        until = max(until, int(stop[k]))
    return [*groups, (begin, len(first))]


def _ranks(size: Order, length: Order, first: Order, stop: Order, spans: list[NDArray[np.intp]]) -> list[Order]:
    """Static orders, largest first: T fullest section, A size x lifetime, W lifetime, Z size, M sections spanned."""
    totals = np.array([int(size[span].sum()) for span in spans], dtype=np.int64)
    fullest = np.array([int(totals[a:b].max()) for a, b in zip(first, stop, strict=True)], dtype=np.int64)
    keys = {"T": fullest, "A": size * length, "W": length, "Z": size, "M": stop - first}
    ranks = []
    for name in ORDERS:
        order = np.lexsort((np.arange(len(size)), *(-keys[letter] for letter in reversed(name))))
        rank = np.empty(len(size), dtype=np.int64)
        rank[order] = np.arange(len(size))
        ranks.append(rank)
    return ranks


ORDERS = ("TWA", "AWT", "TMA", "WAT", "TAW", "MTA")
