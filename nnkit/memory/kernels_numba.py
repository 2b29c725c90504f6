"""The branch and bound of `search`, compiled, with four additions.

* Parts: once an item is placed, the remaining ones may fall apart into groups that share no step. Each group is
  searched alone, and one that cannot be placed refutes the choice whatever the others do.
* Ranks made anew: an order that begins with the fullest section may count only what is left to place in a part.
  Static orders go wrong deep in the search, where the sections that bind are others than at its start.
* Causes: where a part fails that the item placed last did not raise, no other choice of that item can help: all
  later choices start from higher offsets. The whole group is refuted at once.
* Dead ends: a group is characterised by its items, their lowest offsets and which of them may no longer lie there.
  Groups that were refuted are remembered by a 128-bit digest (a collision is far less likely than a memory error).

A third prune follows from offsets that never decrease: an item whose lowest offset was passed by must rest on one of
its remaining neighbours, which bounds it from below.

A fixed item is never raised (its placement fails instead) and never passed by.

Imported only where the extra `[solver]` is installed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, njit, types

_FAR = 1 << 60


class Facts(NamedTuple):
    """What does not change: see `compiled._Job`. tie: see `ranked_anew`; [-1]: one rank holds for all parts."""

    capacity: Any
    size: Any
    rounded: Any
    slack: Any
    align: Any
    fixed: Any
    first: Any
    stop: Any
    tie: Any
    reach: Any


class Work(NamedTuple):
    """What a search writes: its groups of items (`pool`), the lowest offset of each item, and the offsets.

    floor, need: by section, for `holds`. trail_item, trail_offset: lowest offsets to restore. dead: digests of
    refuted groups. state: placements used, their limit, entries of the trail.
    """

    pool: Any
    lowest: Any
    offsets: Any
    floor: Any
    need: Any
    trail_item: Any
    trail_offset: Any
    dead: Any
    state: Any


_A1 = int64[::1]
_A2 = int64[:, ::1]
_FACTS = types.NamedTuple((int64, *[_A1] * (len(Facts._fields) - 2), _A2), Facts)
_WORK = types.NamedUniTuple(_A1, len(Work._fields), Work)


@njit(cache=True)
def holds(begin: int, end: int, last: int, last_rank: int, rank: Any, facts: Any, work: Any) -> bool:
    """Whether no bound forbids the group pool[begin:end] (in order of time) within the capacity."""
    capacity, size, rounded, slack = facts.capacity, facts.size, facts.rounded, facts.slack
    fixed, first, stop, reach = facts.fixed, facts.first, facts.stop, facts.reach
    pool, lowest, floor, need = work.pool, work.lowest, work.floor, work.need
    low = first[pool[begin]]
    high = low
    for p in range(begin, end):
        high = max(high, stop[pool[p]])
    for s in range(low, high):
        floor[s] = _FAR
        need[s] = 0
    for p in range(begin, end):
        i = pool[p]
        at = lowest[i]
        if at < last or (at == last and rank[i] < last_rank):
            if fixed[i]:
                return False
            rest = _FAR
            for q in range(begin, end):
                j = pool[q]
                if first[j] >= stop[i]:
                    break
                if stop[j] > first[i] and j != i:
                    rest = min(rest, max(lowest[j], last) + reach[j, i])
            if rest < _FAR:
                at = max(at, rest)
        if at + size[i] > capacity:
            return False
        for s in range(first[i], stop[i]):
            need[s] += rounded[i]
            floor[s] = min(floor[s], at)
    for s in range(low, high):  # noqa: SIM110 (no generators in compiled code)
        if need[s] > 0 and floor[s] + need[s] - slack[s] > capacity:
            return False
    return True


@njit(cache=True)
def ranked_anew(begin: int, end: int, pool: Any, first: Any, stop: Any, need: Any, tie: Any) -> Any:
    """Ranks of a part by what remains to be placed in its items' fullest sections, then by `tie`."""
    keys = np.empty(end - begin, dtype=np.int64)
    for p in range(begin, end):
        i = pool[p]
        fullest = int64(0)
        for s in range(first[i], stop[i]):
            fullest = max(fullest, need[s])
        keys[p - begin] = -fullest * int64(len(tie)) + tie[i]
    order = np.argsort(keys)
    ranks = np.empty(len(tie), dtype=np.int64)
    for place in range(end - begin):
        ranks[pool[begin + order[place]]] = place
    return ranks


@njit(cache=True)
def untouched(begin: int, end: int, k: int, mark: int, facts: Any, work: Any) -> bool:
    """Whether placing `k` (trail entries from `mark` on) raised no item of the group pool[begin:end]."""
    first, stop, pool, trail_item = facts.first, facts.stop, work.pool, work.trail_item
    trail_end = work.state[2]
    for p in range(begin, end):
        j = pool[p]
        if first[j] < stop[k] and first[k] < stop[j]:
            for t in range(mark, trail_end):
                if trail_item[t] == j:
                    return False
    return True


@njit(int64(int64, int64, int64, int64, int64, _A1, _FACTS, _WORK), cache=True)
def place_group(begin: int, end: int, top: int, last: int, last_rank: int, rank: Any, facts: Any, work: Any) -> int:
    """1: `offsets` of the group pool[begin:end] are a packing; 0: there is none; -1: out of placements.

    The group passed `holds`. `top` is the first free entry of the pool.
    """
    size, align, fixed, first, stop = facts.size, facts.align, facts.fixed, facts.first, facts.stop
    tie, reach = facts.tie, facts.reach
    pool, lowest, offsets, need = work.pool, work.lowest, work.offsets, work.need
    trail_item, trail_offset, dead, state = work.trail_item, work.trail_offset, work.dead, work.state
    count = end - begin
    if count == 1:
        offsets[pool[begin]] = lowest[pool[begin]]
        return 1
    key = int64(count)
    key_too = int64(1469598103934665603)
    ceiling = _FAR
    for p in range(begin, end):
        i = pool[p]
        at = lowest[i]
        passed = at < last or (at == last and rank[i] < last_rank)
        # Two sums of differently mixed words (multiply, xor with the high half, multiply, xor).
        word = at * int64(-7046029254386353131) + int64(2 * i + passed)
        mixed = word * int64(-4658895280553007687)
        mixed ^= (mixed >> 29) & int64((1 << 35) - 1)
        mixed *= int64(-7723592293110705685)
        mixed ^= (mixed >> 32) & int64((1 << 32) - 1)
        key += mixed
        mixed = (word ^ int64(88172645463325252)) * int64(-4417276706812531889)
        mixed ^= (mixed >> 31) & int64((1 << 33) - 1)
        mixed *= int64(-7046029254386353131)
        mixed ^= (mixed >> 30) & int64((1 << 34) - 1)
        key_too += mixed
        # Whoever lies at or above the end of another's lowest place comes after that other one.
        ceiling = min(ceiling, at + size[i])
    slot = 2 * (key & (dead.shape[0] // 2 - 1))
    if dead[slot] == key and dead[slot + 1] == key_too:
        return 0
    tried = last
    tried_rank = last_rank
    while True:
        k = -1
        at = ceiling
        at_rank = _FAR
        for p in range(begin, end):
            i = pool[p]
            here = lowest[i]
            later = here > tried or (here == tried and rank[i] > tried_rank)
            if later and here < ceiling and (here < at or (here == at and rank[i] < at_rank)):
                k = i
                at = here
                at_rank = rank[i]
        if k < 0:
            dead[slot] = key
            dead[slot + 1] = key_too
            return 0
        if state[0] >= state[1]:
            return -1
        state[0] += 1
        tried = at
        tried_rank = at_rank
        mark = state[2]
        free = top
        independent = False
        result = 1
        for p in range(begin, end):
            j = pool[p]
            if j == k:
                continue
            pool[free] = j
            free += 1
            if first[j] >= stop[k] or first[k] >= stop[j]:
                continue
            above = at + reach[k, j]
            if lowest[j] < above:
                if fixed[j]:
                    result = 0
                    break
                trail_item[state[2]] = j
                trail_offset[state[2]] = lowest[j]
                state[2] += 1
                lowest[j] = -(-above // align[j]) * align[j]
        offsets[k] = at
        for searching in range(2):  # bounds of all parts first: they are cheap
            part = top
            while part < free and result == 1:
                until = stop[pool[part]]
                after = part + 1
                while after < free and first[pool[after]] < until:
                    until = max(until, stop[pool[after]])
                    after += 1
                if searching == 0:
                    if not holds(part, after, at, at_rank, rank, facts, work):
                        result = 0
                        independent = untouched(part, after, k, mark, facts, work)
                else:
                    part_rank = rank
                    part_last_rank = at_rank
                    if tie[0] >= 0 and after - part < free - top:
                        # `holds` left what remains of every section of this part in `need`.
                        part_rank = ranked_anew(part, after, pool, first, stop, need, tie)
                        part_last_rank = -1  # ranks of two orders are not compared: nobody at `at` is passed by
                    result = place_group(part, after, free, at, part_last_rank, part_rank, facts, work)
                    if result == 0:
                        independent = untouched(part, after, k, mark, facts, work)
                part = after
        if result == 1:
            return 1
        while state[2] > mark:
            state[2] -= 1
            lowest[trail_item[state[2]]] = trail_offset[state[2]]
        if result < 0:
            return -1
        if independent:
            dead[slot] = key
            dead[slot + 1] = key_too
            return 0


def empty_dead_ends(entries: int = 1 << 20) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Room for digests of refuted groups; `entries` is a power of two."""
    return np.zeros(2 * entries, dtype=np.int64)
