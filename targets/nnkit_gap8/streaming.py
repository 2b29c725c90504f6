"""Weights that stream from a far memory: cutting a layer's blocks into chunks, and finding a place for each chunk.

Activations are placed already. A chunk takes free bytes below a ceiling in the step that uses it and, where there is
room, in the step before, so that its copy runs while the previous chunk is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnkit.memory.packing import align_up

Span = tuple[int, int]
"""[start, end) in bytes."""


def window_bytes(blocks: Sequence[int], count: int) -> int:
    """The largest sum of `count` consecutive blocks (of all, where there are fewer): room for any such chunk."""
    count = min(count, len(blocks))
    if count <= 0:
        return 0
    total = best = sum(blocks[:count])
    for index in range(count, len(blocks)):
        total += blocks[index] - blocks[index - count]
        best = max(best, total)
    return best


def split_blocks(blocks: Sequence[int], room_bytes: int) -> list[int]:
    """Cut consecutive blocks into the fewest chunks of at most `room_bytes`, as even as that number allows.

    Returns the number of blocks of each chunk. Even chunks are smaller, so that the next one can be prefetched.

    Raises:
        ValueError: a single block is larger than the room.
    """
    if not blocks:
        return []
    if max(blocks) > room_bytes:
        raise ValueError("a single weight block does not fit the room")
    fewest = len(_greedy(blocks, room_bytes))
    low, high = max(blocks), min(room_bytes, sum(blocks))
    while low < high:
        middle = (low + high) // 2
        if len(_greedy(blocks, middle)) <= fewest:
            high = middle
        else:
            low = middle + 1
    return _greedy(blocks, low)


def _greedy(blocks: Sequence[int], room_bytes: int) -> list[int]:
    counts, total = [0], 0
    for size in blocks:
        if counts[-1] and total + size > room_bytes:
            counts.append(0)
            total = 0
        counts[-1] += 1
        total += size
    return counts


def gaps(taken: Sequence[Span], floor_bytes: int, ceiling_bytes: int, alignment_bytes: int) -> list[Span]:
    """Free spans in [floor, ceiling) beside `taken`; their starts are aligned."""
    free: list[Span] = []
    start = align_up(floor_bytes, alignment_bytes)
    for begin, end in [*sorted(taken), (ceiling_bytes, ceiling_bytes)]:
        if min(begin, ceiling_bytes) > start:
            free.append((start, min(begin, ceiling_bytes)))
        start = max(start, align_up(end, alignment_bytes))
    return free


def largest_gap_bytes(taken: Sequence[Span], floor_bytes: int, ceiling_bytes: int, alignment_bytes: int) -> int:
    """Bytes of the largest free span."""
    return max((end - start for start, end in gaps(taken, floor_bytes, ceiling_bytes, alignment_bytes)), default=0)


@dataclass(frozen=True)
class ChunkJob:
    """A chunk to place: used in `step`; its copy may be issued in `prefetch_steps`, earlier ones, best first."""

    size_bytes: int
    step: int
    prefetch_steps: tuple[int, ...]


@dataclass(frozen=True)
class ChunkPlace:
    """Where a chunk lies, and the step at whose start its copy is issued."""

    offset_bytes: int
    fetch_step: int


def place_chunks(
    jobs: Sequence[ChunkJob],
    taken: Sequence[Sequence[Span]],
    floor_bytes: Sequence[int],
    ceiling_bytes: int,
    alignment_bytes: int,
) -> list[ChunkPlace]:
    """Place chunks, in order of their steps, each prefetched where there is room and in its own step otherwise.

    Args:
        taken: per step, the spans of everything else that lives in it.
        floor_bytes: per step, the lowest offset a chunk may take.

    Raises:
        ValueError: a chunk finds no room even in its own step (the caller sized it wrongly).
    """
    places: list[ChunkPlace] = []
    earliest = 0  # copies are made in the order of their steps
    held: list[list[Span]] = [list(spans) for spans in taken]
    for job in jobs:
        place = None
        for fetch in [*(step for step in job.prefetch_steps if earliest <= step < job.step), job.step]:
            steps = range(fetch, job.step + 1)
            spans = [span for step in steps for span in held[step]]
            free = gaps(spans, max(floor_bytes[step] for step in steps), ceiling_bytes, alignment_bytes)
            fitting = [span for span in free if span[1] - span[0] >= job.size_bytes]
            if fitting:
                start = min(fitting, key=lambda span: (span[1] - span[0], span[0]))[0]  # best fit
                place = ChunkPlace(start, fetch)
                break
        if place is None:
            raise ValueError(f"no room for a chunk of {job.size_bytes} bytes in step {job.step}")
        places.append(place)
        earliest = place.fetch_step
        for step in range(place.fetch_step, job.step + 1):
            held[step].append((place.offset_bytes, place.offset_bytes + job.size_bytes))
    return places
