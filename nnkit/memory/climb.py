"""Hill climbing over first-fit orders, deterministic in steps and seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from nnkit.memory import first_fit
from nnkit.memory.packing import Packing


def hill_climb(packing: Packing, offsets: Sequence[int], bound_bytes: int, steps: int, seed: int) -> list[int]:
    """Improve a packing; at most `steps` placements of all items.

    A move takes an item that ends at the peak, or one below it, and places it earlier. Sideways moves (the same
    peak) are accepted: plateaus are wide in this problem. Returns the best offsets met.
    """
    draw = random.Random(seed)
    items = packing.items
    order = sorted(range(len(items)), key=lambda i: (offsets[i], i))
    current = first_fit.place(packing, order)
    current_peak = packing.peak(current)
    best, best_peak = list(offsets), packing.peak(offsets)
    if current_peak < best_peak:
        best, best_peak = current, current_peak
    for _ in range(steps):
        if best_peak <= bound_bytes:
            break
        position = {index: rank for rank, index in enumerate(order)}
        at_peak = [i for i in order if current[i] + items[i].size_bytes == current_peak]
        chosen = draw.choice(at_peak)
        blockers = [j for j in packing.neighbours[chosen] if position[j] < position[chosen]]
        if blockers and draw.random() < 0.5:
            # Let the peak item pass one of those that hold it up.
            passed = draw.choice(blockers)
            order_new = _move(order, position[chosen], position[passed])
        elif blockers:
            # Reorder two of those that hold it up.
            pool = [*blockers, chosen]
            a, b = draw.choice(pool), draw.choice(pool)
            order_new = _move(order, max(position[a], position[b]), min(position[a], position[b]))
        else:
            order_new = _move(order, position[chosen], draw.randrange(len(order)))
        trial = first_fit.place(packing, order_new)
        peak = packing.peak(trial)
        if peak <= current_peak:
            order, current, current_peak = order_new, trial, peak
        if peak < best_peak:
            best, best_peak = trial, peak
    return best


def _move(order: Sequence[int], source: int, target: int) -> list[int]:
    moved = list(order)
    moved.insert(target, moved.pop(source))
    return moved
