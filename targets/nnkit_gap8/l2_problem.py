"""What is to be placed in L2 (activations, weight chunks, scratch), as the allocator takes it."""

from __future__ import annotations

from collections.abc import Sequence

from nnkit.memory.lifetimes import Storages
from nnkit.memory.plan import Region
from nnkit.memory.problem import UNBOUNDED_BYTES, Problem, Request
from nnkit_gap8.loads import OpLoad


def l2_problem(
    storages: Storages, loads: Sequence[OpLoad], chunk_bytes: Sequence[int], alignment_bytes: int
) -> Problem:
    """The buffers of L2; a step is an op. `a0`... are activations, `w0`... an op's chunk, `s0`... its scratch.

    The capacity is open: whether the peak fits, and what to say where it does not, is the planner's affair.

    Args:
        chunk_bytes: room for the weights of each op; 0: none.
    """
    requests = [Request(f"a{i}", b.size_bytes, b.first_op, b.last_op) for i, b in enumerate(storages.buffers)]
    requests += [Request(f"w{i}", size, i, i) for i, size in enumerate(chunk_bytes) if size]
    scratch = [load.l2_scratch_bytes for load in loads]
    requests += [Request(f"s{i}", size, i, i) for i, size in enumerate(scratch) if size]
    return Problem((Region("l2", UNBOUNDED_BYTES, alignment_bytes),), tuple(requests))
