"""Simple allocators that deployment tools ship, to compare with: greedy first fit in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Buffer:
    """Bytes that live from step `first` to step `last`, both included."""

    size_bytes: int
    first: int
    last: int


def first_fit_by_size(buffers: Sequence[Buffer], alignment: int) -> list[int]:
    """The largest buffer first, each at the lowest offset that is free over its lifetime."""
    return _greedy(buffers, sorted(range(len(buffers)), key=lambda i: (-buffers[i].size_bytes, i)), alignment)


def first_fit_by_start(buffers: Sequence[Buffer], alignment: int) -> list[int]:
    """In order of birth, as an allocator at run time would see them."""
    return _greedy(buffers, sorted(range(len(buffers)), key=lambda i: (buffers[i].first, i)), alignment)


def _greedy(buffers: Sequence[Buffer], order: Sequence[int], alignment: int) -> list[int]:
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for index in order:
        buffer = buffers[index]
        beside = [j for j in placed if buffers[j].first <= buffer.last and buffer.first <= buffers[j].last]
        offset = 0
        for j in sorted(beside, key=lambda j: offsets[j]):
            if offset + buffer.size_bytes <= offsets[j]:
                break
            offset = max(offset, -(-(offsets[j] + buffers[j].size_bytes) // alignment) * alignment)
        offsets[index] = offset
        placed.append(index)
    return offsets
