"""First fit: items in some order, each at the lowest offset where it does not meet those already placed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnkit.errors import InternalError
from nnkit.memory.packing import Item, Packing


def place(packing: Packing, order: Sequence[int]) -> list[int]:
    """Offsets by first fit in `order` (indices of all items; fixed items are placed before the others)."""
    offsets: list[int] = [-1] * len(packing.items)
    for index, item in enumerate(packing.items):
        if item.fixed_offset_bytes is not None:
            offsets[index] = item.fixed_offset_bytes
    for index in order:
        item = packing.items[index]
        if item.fixed_offset_bytes is None:
            offsets[index] = lowest_offset(packing, offsets, index)
    return offsets


def lowest_offset(packing: Packing, offsets: Sequence[int], index: int) -> int:
    """The lowest free offset for item `index` beside its placed neighbours (offset >= 0)."""
    if packing.is_plain:
        return _lowest_plain(packing, offsets, index)
    # Open intervals (below, above) of starts that a placed neighbour forbids.
    forbidden = sorted(
        (packing.highest_below(index, j, offsets[j]), packing.end_below(j, offsets[j], index))
        for j in packing.neighbours[index]
        if offsets[j] >= 0
    )
    offset = 0
    for below, above in forbidden:
        if offset <= below:
            break
        if above > offset:
            offset = packing.settle(index, above)
    return offset


def _lowest_plain(packing: Packing, offsets: Sequence[int], index: int) -> int:
    """The same without rules for pairs and banks: most of the search's time goes here."""
    sizes, size, alignment = packing.sizes, packing.sizes[index], packing.items[index].alignment_bytes
    taken = [(start, start + sizes[j]) for j in packing.neighbours[index] if (start := offsets[j]) >= 0]
    taken.sort()
    offset = 0
    for start, end in taken:
        if offset + size <= start:
            break
        if end > offset:
            offset = -(-end // alignment) * alignment
    return offset


def _length(item: Item) -> int:
    return item.last_step - item.first_step + 1


ORDERS: dict[str, Callable[[Item], tuple[int, ...]]] = {
    "size": lambda i: (-i.size_bytes, i.first_step),
    "area": lambda i: (-i.size_bytes * _length(i), -i.size_bytes),
    "lifetime": lambda i: (-_length(i), -i.size_bytes),
    "start": lambda i: (i.first_step, -i.size_bytes),
    "start, long first": lambda i: (i.first_step, -_length(i), -i.size_bytes),
    "end": lambda i: (-i.last_step, -i.size_bytes),
}


def pressure_order(packing: Packing) -> list[int]:
    """Items of the fullest sections first: what meets at the peak is placed while there is room."""
    load = [0] * len(packing.items)
    for members in packing.sections:
        total = sum(packing.items[i].size_bytes for i in members)
        for i in members:
            load[i] = max(load[i], total)
    return sorted(range(len(packing.items)), key=lambda i: (-load[i], -packing.items[i].size_bytes, i))


def best_of_orders(packing: Packing, bound_bytes: int) -> tuple[str, list[int]]:
    """(name of the order, offsets) of the least peak; stops at the first order that reaches the bound.

    Raises:
        InternalError: fixed items overlap.
    """
    _check_fixed(packing)
    count = len(packing.items)
    orders = [
        (f"first fit by {name}", sorted(range(count), key=_key(packing, rule))) for name, rule in ORDERS.items()
    ]
    orders.append(("first fit by pressure", pressure_order(packing)))
    best_name, best_offsets, best_peak = "", [0] * count, -1
    for name, order in orders:
        offsets = place(packing, order)
        peak = packing.peak(offsets)
        if best_peak < 0 or peak < best_peak:
            best_name, best_offsets, best_peak = name, offsets, peak
        if best_peak <= bound_bytes:
            break
    return best_name, best_offsets


def _key(packing: Packing, rule: Callable[[Item], tuple[int, ...]]) -> Callable[[int], tuple[int, ...]]:
    return lambda index: (*rule(packing.items[index]), index)


def _check_fixed(packing: Packing) -> None:
    for i, item in enumerate(packing.items):
        for j in packing.neighbours[i]:
            a, other = item.fixed_offset_bytes, packing.items[j]
            b = other.fixed_offset_bytes
            if a is None or b is None:
                continue
            if packing.end_below(i, a, j) > b and packing.end_below(j, b, i) > a:
                raise InternalError(f"the fixed items {item.id!r} and {other.id!r} overlap")
