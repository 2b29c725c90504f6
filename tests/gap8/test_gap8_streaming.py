"""Cutting weight blocks into chunks and finding room for them, against brute force."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit_gap8.streaming import ChunkJob, gaps, place_chunks, split_blocks, window_bytes

BLOCKS = st.lists(st.integers(1, 20), min_size=1, max_size=8)


@given(BLOCKS, st.integers(1, 10))
def test_window_is_the_largest_sum_of_consecutive_blocks(blocks: list[int], count: int) -> None:
    count = min(count, len(blocks))
    assert window_bytes(blocks, count) == max(sum(blocks[i : i + count]) for i in range(len(blocks) - count + 1))


@settings(max_examples=80)
@given(BLOCKS, st.integers(0, 40))
def test_split_is_the_fewest_and_most_even_chunks(blocks: list[int], extra: int) -> None:
    room = max(blocks) + extra
    counts = split_blocks(blocks, room)
    options = []
    for cuts in product([False, True], repeat=len(blocks) - 1):
        sums, total = [], blocks[0]
        for cut, size in zip(cuts, blocks[1:], strict=True):
            if cut:
                sums.append(total)
                total = 0
            total += size
        sums.append(total)
        if max(sums) <= room:
            options.append((len(sums), max(sums)))
    chunk_bytes, start = [], 0
    for count in counts:
        chunk_bytes.append(sum(blocks[start : start + count]))
        start += count
    assert start == len(blocks)
    assert min(counts) >= 1
    assert (len(chunk_bytes), max(chunk_bytes)) == min(options)


def test_a_block_larger_than_the_room_is_refused() -> None:
    with pytest.raises(ValueError, match="single weight block"):
        split_blocks([3, 9], 8)
    assert split_blocks([], 8) == []


def test_gaps_by_hand() -> None:
    assert gaps([(4, 10), (16, 20)], 0, 30, 4) == [(0, 4), (12, 16), (20, 30)]
    assert gaps([(0, 12), (4, 8)], 0, 30, 4) == [(12, 30)]  # one span inside another
    assert gaps([(0, 40)], 0, 30, 4) == []
    assert gaps([], 5, 30, 4) == [(8, 30)]


def test_chunks_are_prefetched_where_two_fit_side_by_side() -> None:
    """Room of 20: chunks of 10 alternate, a chunk of 15 has to wait for its own step."""
    jobs = [ChunkJob(10, 0, ()), ChunkJob(10, 1, (0,)), ChunkJob(15, 2, (1,))]
    places = place_chunks(jobs, [[], [], []], [0, 0, 0], 20, 1)
    assert [(p.offset_bytes, p.fetch_step) for p in places] == [(0, 0), (10, 0), (0, 2)]


def test_a_prefetch_keeps_clear_of_what_lives_in_either_step() -> None:
    jobs = [ChunkJob(4, 1, (0,))]
    assert place_chunks(jobs, [[(0, 8)], [(8, 16)]], [0, 0], 24, 1)[0].offset_bytes == 16
    late = place_chunks(jobs, [[(0, 16)], [(16, 20)]], [0, 0], 20, 1)[0]
    assert (late.offset_bytes, late.fetch_step) == (0, 1)


def test_no_room_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="no room"):
        place_chunks([ChunkJob(8, 0, ())], [[(0, 4)]], [0], 10, 1)
