"""What each op adds to its activations, and how small its weight chunks may get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TypeAlias

from nnkit.errors import InternalError
from nnkit.memory.lifetimes import Storages, choose_storages
from nnkit.memory.needs import KernelNeeds, overwriting_chunks
from nnkit.memory.packing import align_up
from nnkit.memory.plan import Region
from nnkit.program import Convolution, OpBase, Program, macs
from nnkit_gap8 import streaming

NeedsOf: TypeAlias = Callable[[OpBase], KernelNeeds]
ChooseStorages: TypeAlias = Callable[..., Storages]
"""`choose_storages`, or what remembers its answers."""

_INSTRUCTIONS_PER_MAC = 3.0  # of the blocked kernels; only the ratio to the next line matters
_INSTRUCTIONS_PER_GATHER = 3.5  # gathering one tap of one output pixel
_MOST_OVERWRITING_CHUNKS = 8  # in the first of which cores have little to share


@dataclass(frozen=True)
class MemoryMachine:
    """The memories that a plan fills. context_bytes, stack_bytes and code_bytes follow the pool in L2.

    prefetch_steps: how many busy steps before its own a chunk of weights may be fetched.
    prefetch_pool_bytes: up to where weights may lie that are fetched so, also above the least pool.
    """

    l1: Region
    l2: Region
    l3: Region
    context_bytes: int = 0
    stack_bytes: int = 0
    code_bytes: int = 0
    prefetch_steps: int = 1
    prefetch_pool_bytes: int = 0


@dataclass(frozen=True)
class OpLoad:
    """What one op needs beside activations.

    blocks: bytes of its weight blocks. floor_blocks: blocks of the smallest chunk that the policy makes.
    repack_instructions: what each chunk after the first costs, roughly (0: nothing is gathered).
    overwrites: where the output may lie on the input, bytes of a channel of the input and of the output.
    """

    blocks: tuple[int, ...]
    floor_blocks: int
    l2_scratch_bytes: int
    l1_scratch_bytes: int
    repack_instructions: float
    overwrites: tuple[int, int] | None = None

    @property
    def block_bytes(self) -> int:
        """The largest block: no chunk needs less room."""
        return max(self.blocks, default=0)

    @property
    def floor_bytes(self) -> int:
        """Room for any chunk of `floor_blocks` blocks."""
        return streaming.window_bytes(self.blocks, self.floor_blocks)


@dataclass(frozen=True)
class Placed:
    """Activation and L2 scratch offsets. pool_bytes: the ceiling. weight_floor: per op, where weights may start.

    loads: with the chunk floors that this placement was made for.
    """

    planner: str
    loads: tuple[OpLoad, ...]
    storages: Storages
    offsets: tuple[int, ...]
    scratch_offsets: tuple[int | None, ...]
    pool_bytes: int
    weight_floor: tuple[int, ...]


def op_loads(program: Program, needs: NeedsOf, machine: MemoryMachine) -> list[OpLoad]:
    """The loads of all ops, with the chunks' floor as the kernels wish it.

    Raises:
        InternalError: two ops share a name, or scratch is wanted in a region that holds none.
    """
    names: set[str] = set()
    loads = []
    for op in program.ops:
        if op.name in names:
            raise InternalError("two ops share a name", where=op.name)
        names.add(op.name)
        loads.append(_load(op, program, needs(op), machine))
    return loads


def _load(op: OpBase, program: Program, needs: KernelNeeds, machine: MemoryMachine) -> OpLoad:
    regions = {"l1": machine.l1, "l2": machine.l2}
    scratch = {"l1": 0, "l2": 0}
    for region, size in needs.scratch_bytes:
        if region not in regions:
            raise InternalError(f"scratch is wanted in {region!r}, which holds none", where=op.name)
        scratch[region] += align_up(size, regions[region].alignment_bytes)
    blocks = needs.weight_block_bytes
    wish = max(needs.min_blocks_per_chunk, 1) if needs.repacks_input else 1
    gathers = needs.repacks_input and isinstance(op, Convolution)
    channels = program.tensors[op.output].channels
    repack = _INSTRUCTIONS_PER_GATHER * macs(op, program) / channels if gathers else 0.0
    overwrites = None
    if needs.reads_planes_first:
        planes = [program.tensors[name] for name in (op.inputs[0], op.output)]
        in_plane, out_plane = (plane.size_bytes // plane.shape[0] for plane in planes)
        if len(overwriting_chunks(len(blocks), in_plane, out_plane)) <= _MOST_OVERWRITING_CHUNKS:
            overwrites = in_plane, out_plane
    return OpLoad(blocks, min(wish, len(blocks)), scratch["l2"], scratch["l1"], repack, overwrites)


def with_single_blocks(loads: Sequence[OpLoad]) -> list[OpLoad]:
    """The same loads with chunks of one block allowed everywhere: the least memory, at any cost."""
    return [replace(load, floor_blocks=min(1, len(load.blocks))) for load in loads]


def spend_on_smaller_chunks(
    program: Program, loads: Sequence[OpLoad], live_bytes: Sequence[int], alignment: int, limit: float
) -> list[OpLoad]:
    """Lower the chunk floors of the ops that bind the peak while gathering again costs at most `limit` of the run.

    Args:
        live_bytes: bytes at each op that weights cannot take: of live activations, or up to the last of them.
        limit: extra instructions as a fraction of an estimate of the whole network's.
    """
    budget = limit * _INSTRUCTIONS_PER_MAC * sum(macs(op, program) for op in program.ops)
    current = list(loads)
    while current:
        needed = [
            live + align_up(load.floor_bytes, alignment) + load.l2_scratch_bytes
            for live, load in zip(live_bytes, current, strict=True)
        ]
        binding = [index for index, total in enumerate(needed) if total == max(needed)]
        if any(current[index].floor_blocks <= 1 for index in binding):
            return current
        trial = list(current)
        for index in binding:
            trial[index] = replace(trial[index], floor_blocks=trial[index].floor_blocks // 2)
        extra = sum(
            (_chunks(new) - _chunks(old)) * new.repack_instructions for old, new in zip(loads, trial, strict=True)
        )
        if extra > budget:
            return current
        current = trial
    return current


def _chunks(load: OpLoad) -> int:
    return -(-len(load.blocks) // load.floor_blocks) if load.blocks else 0


def chunk_counts(load: OpLoad, room: int) -> list[int]:
    """Blocks of each chunk in `room` bytes.

    A layer that gathers nothing and does not fit whole takes half of the room: its copies then overlap its work.
    """
    counts = streaming.split_blocks(load.blocks, room)
    if len(counts) > 1 and not load.repack_instructions and load.block_bytes <= room // 2:
        counts = streaming.split_blocks(load.blocks, room // 2)
    if load.overwrites is None:
        return counts
    return _cut_further(counts, overwriting_chunks(len(load.blocks), *load.overwrites))


def choose_loaded_storages(
    program: Program, loads: Sequence[OpLoad], alignment: int, choose: ChooseStorages = choose_storages
) -> tuple[Storages, list[OpLoad]]:
    """Which tensors share bytes for the least peak beside the loads; and the loads, `overwrites` left where it is so.

    An output is written over its input only where that lowers the peak: it may take more chunks.
    """
    extra = [align_up(load.floor_bytes, alignment) + load.l2_scratch_bytes for load in loads]
    apart = choose(program, extra, alignment)
    able = [index for index, load in enumerate(loads) if load.overwrites is not None]
    over = choose(program, extra, alignment, able) if able else apart

    def peak(storages: Storages) -> int:
        live = storages.live_bytes(len(loads), alignment)
        return max((a + b for a, b in zip(live, extra, strict=False)), default=0)

    chosen = over if peak(over) < peak(apart) else apart
    written = {index for what, index, _ in chosen.shared if what == "overwrite"}
    kept = [load if index in written else replace(load, overwrites=None) for index, load in enumerate(loads)]
    return chosen, kept


def _cut_further(counts: Sequence[int], needed: Sequence[int]) -> list[int]:
    """Chunks cut further at the ends of the chunks that are needed."""
    ends = sorted({*accumulate(counts), *accumulate(needed)})
    return [end - start for start, end in pairwise([0, *ends])]


def parts(blocks: Sequence[int], counts: Sequence[int]) -> list[tuple[int, ...]]:
    """The blocks of each chunk."""
    chunks, start = [], 0
    for count in counts:
        chunks.append(tuple(blocks[start : start + count]))
        start += count
    return chunks


def with_reserved(pool_bytes: int, machine: MemoryMachine) -> int:
    """Bytes of L2 for a pool with context, stack and code behind it, each aligned."""
    alignment, total = machine.l2.alignment_bytes, pool_bytes
    for size in (machine.context_bytes, machine.stack_bytes, machine.code_bytes):
        if size:
            total = align_up(total, alignment) + size
    return total
