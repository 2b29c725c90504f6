"""What one op's kernel needs beside its tensors: the contract between a code generator and a planner."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelNeeds:
    """Needs of one op's kernel.

    scratch_bytes: scratch while the op runs, by region name (e.g. {"l1": 4608}).
    weight_block_bytes: sizes of the consecutive weight blocks in L3 (bias and slopes inside, each padded to
        the region's alignment); a block is the least that can be fetched alone. Empty: no weights.
    min_blocks_per_chunk: fetching fewer at a time is possible but costs `repack`ing; a soft limit.
    repacks_input: every chunk gathers the input anew (im2row), so many small chunks cost instructions.
    reads_planes_first: output channel i reads input channel i alone, and the output may start where the input does:
        of the bytes that channels in order write, none is read later. A chunk of several blocks may compute its
        channels in any order, by several cores (see `overwriting_chunks`).
    """

    scratch_bytes: tuple[tuple[str, int], ...] = ()
    weight_block_bytes: tuple[int, ...] = ()
    min_blocks_per_chunk: int = 1
    repacks_input: bool = False
    reads_planes_first: bool = False


def overwriting_chunks(block_count: int, input_bytes: int, output_bytes: int) -> list[int]:
    """Blocks of the fewest chunks in which an op may write over its input, channel by channel, from the same address.

    input_bytes, output_bytes: of one channel, the output's at most the input's. Where both are equal every channel
    has its own bytes, and one chunk does. Otherwise a chunk of blocks first .. last - 1 is written in any order, so
    that its output has to end where its own input starts: last * output_bytes <= first * input_bytes. A chunk of one
    block is computed channel after channel and needs no more than that earlier chunks are done.
    """
    counts, first = [], 0
    while first < block_count:
        last = block_count if input_bytes == output_bytes else max(first + 1, first * input_bytes // output_bytes)
        counts.append(min(last, block_count) - first)
        first += counts[-1]
    return counts
