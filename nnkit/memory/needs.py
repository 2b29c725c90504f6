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
    """

    scratch_bytes: tuple[tuple[str, int], ...] = ()
    weight_block_bytes: tuple[int, ...] = ()
    min_blocks_per_chunk: int = 1
    repacks_input: bool = False
