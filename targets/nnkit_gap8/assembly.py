"""From placed activations to a MemoryPlan: chunks cut and placed, steps laid out, every buffer listed."""

from __future__ import annotations

from collections.abc import Sequence

from nnkit.memory.lifetimes import Storages
from nnkit.memory.packing import align_up
from nnkit.memory.placing import lower_bound_bytes
from nnkit.memory.plan import Buffer, MemoryPlan, RegionUse, Step, TensorPlace, WeightChunk
from nnkit.memory.same_weights import first_with_same_weights
from nnkit.program import Program
from nnkit_gap8 import streaming
from nnkit_gap8.l2_problem import l2_problem
from nnkit_gap8.loads import MemoryMachine, OpLoad, Placed, chunk_counts, parts, with_reserved
from nnkit_gap8.timeline import Timeline, timeline


def assemble(program: Program, machine: MemoryMachine, placed: Placed, notes: Sequence[str]) -> MemoryPlan:
    """The plan: largest chunks under the pool's ceiling, each prefetched where there is room."""
    storages, loads, alignment = placed.storages, placed.loads, machine.l2.alignment_bytes
    counts: list[list[int]] = []
    for index, load in enumerate(loads):
        spans = _spans_at(placed, loads, index)
        floor = placed.weight_floor[index]
        room = streaming.largest_gap_bytes(spans, floor, placed.pool_bytes, alignment)
        counts.append(chunk_counts(load, room))
    time = timeline(program, storages, [len(count) for count in counts])
    names = _Names()
    buffers = _activation_buffers(storages, placed, time, names)
    storage_names = list(buffers)
    places = {
        tensor: TensorPlace(tensor, storage_names[index], offset, program.tensors[tensor].size_bytes)
        for tensor, (index, offset) in storages.places.items()
    }
    for buffer in _scratch_buffers(program, loads, placed, time, names):
        buffers[buffer.name] = buffer
    chunks, weight_bytes = _weights(program, loads, machine, placed, time, counts, names, buffers)
    steps = _steps(program, time, chunks)
    pool = max((b.offset_bytes + b.size_bytes for b in buffers.values() if b.region == "l2"), default=0)
    _reserve(machine, pool, time, names, buffers)
    uses = _region_uses(loads, machine, storages, buffers, weight_bytes)
    return MemoryPlan(
        planner=placed.planner,
        regions=uses,
        buffers=buffers,
        places=places,
        steps=steps,
        chunks=tuple(chunks),
        l3_weight_bytes=weight_bytes,
        notes=(*notes, *_gap_note(uses["l2"], loads, machine, storages)),
    )


def _spans_at(placed: Placed, loads: Sequence[OpLoad], op_index: int) -> list[streaming.Span]:
    spans = [
        (offset, offset + buffer.size_bytes)
        for buffer, offset in zip(placed.storages.buffers, placed.offsets, strict=True)
        if buffer.first_op <= op_index <= buffer.last_op
    ]
    scratch = placed.scratch_offsets[op_index]
    if scratch is not None:
        spans.append((scratch, scratch + loads[op_index].l2_scratch_bytes))
    return spans


def _activation_buffers(storages: Storages, placed: Placed, time: Timeline, names: _Names) -> dict[str, Buffer]:
    buffers: dict[str, Buffer] = {}
    for storage, offset in zip(storages.buffers, placed.offsets, strict=True):
        name = names.take(storage.name)
        first = time.first[storage.first_op] if time.first else 0
        last = time.last[storage.last_op] if time.last else 0
        buffers[name] = Buffer(name, "activation", "l2", offset, storage.size_bytes, first, last)
    return buffers


def _scratch_buffers(
    program: Program, loads: Sequence[OpLoad], placed: Placed, time: Timeline, names: _Names
) -> list[Buffer]:
    buffers = []
    for index, (op, load) in enumerate(zip(program.ops, loads, strict=True)):
        span = time.first[index], time.last[index]
        if load.l1_scratch_bytes:
            name = names.take(f"{op.name}:scratch:l1")
            buffers.append(Buffer(name, "scratch", "l1", 0, load.l1_scratch_bytes, *span))
        offset = placed.scratch_offsets[index]
        if offset is not None:
            name = names.take(f"{op.name}:scratch:l2")
            buffers.append(Buffer(name, "scratch", "l2", offset, load.l2_scratch_bytes, *span))
    return buffers


def _weights(
    program: Program,
    loads: Sequence[OpLoad],
    machine: MemoryMachine,
    placed: Placed,
    time: Timeline,
    counts: Sequence[Sequence[int]],
    names: _Names,
    buffers: dict[str, Buffer],
) -> tuple[list[WeightChunk], int]:
    """The chunks in order of their steps, and the bytes of all weights in L3. Adds the chunks' buffers."""
    jobs, heads, end = [], [], 0
    sources, starts = first_with_same_weights(program), list[int]()
    for index, (op, load) in enumerate(zip(program.ops, loads, strict=True)):
        first_user = sources[index]
        starts.append(align_up(end, machine.l3.alignment_bytes) if first_user == index else starts[first_user])
        l3_offset, first_block = starts[index], 0
        for number, part in enumerate(parts(load.blocks, counts[index])):
            step = time.first[index] + number
            jobs.append(streaming.ChunkJob(sum(part), step, time.busy_steps_before(step, machine.prefetch_steps)))
            heads.append((op.name, number, first_block, len(part), l3_offset))
            l3_offset += sum(part)
            first_block += len(part)
        end = max(end, l3_offset)
    places = streaming.place_chunks(
        jobs,
        [_spans_at(placed, loads, index) for index in time.ops],
        [placed.weight_floor[index] for index in time.ops],
        placed.pool_bytes,
        machine.l2.alignment_bytes,
    )
    chunks = []
    for job, place, (op_name, number, first_block, blocks, offset) in zip(jobs, places, heads, strict=True):
        name = names.take(f"{op_name}:weights:{number}")
        buffers[name] = Buffer(name, "weights", "l2", place.offset_bytes, job.size_bytes, place.fetch_step, job.step)
        chunks.append(
            WeightChunk(op_name, first_block, blocks, offset, job.size_bytes, name, place.fetch_step, job.step)
        )
    return chunks, end


def _steps(program: Program, time: Timeline, chunks: Sequence[WeightChunk]) -> tuple[Step, ...]:
    by_step = {chunk.step: index for index, chunk in enumerate(chunks)}
    return tuple(
        Step(step, program.ops[op].name, by_step.get(step), program.ops[op].inputs, (program.ops[op].output,))
        for step, op in enumerate(time.ops)
    )


def _reserve(machine: MemoryMachine, pool: int, time: Timeline, names: _Names, buffers: dict[str, Buffer]) -> None:
    last = max(time.step_count - 1, 0)
    offset = align_up(pool, machine.l2.alignment_bytes)
    if machine.context_bytes:
        name = names.take("context")
        buffers[name] = Buffer(name, "context", "l2", offset, machine.context_bytes, 0, last)
        offset = align_up(offset + machine.context_bytes, machine.l2.alignment_bytes)
    if machine.stack_bytes:
        name = names.take("stack")
        buffers[name] = Buffer(name, "stack", "l2", offset, machine.stack_bytes, 0, last)
        offset = align_up(offset + machine.stack_bytes, machine.l2.alignment_bytes)
    if machine.code_bytes:
        name = names.take("code")
        buffers[name] = Buffer(name, "code", "l2", offset, machine.code_bytes, 0, last)


def _region_uses(
    loads: Sequence[OpLoad],
    machine: MemoryMachine,
    storages: Storages,
    buffers: dict[str, Buffer],
    weight_bytes: int,
) -> dict[str, RegionUse]:
    peaks = {"l1": 0, "l2": 0}
    for buffer in buffers.values():
        peaks[buffer.region] = max(peaks[buffer.region], buffer.offset_bytes + buffer.size_bytes)
    bound = l2_lower_bound(loads, machine, storages)
    l1, l2, l3 = machine.l1, machine.l2, machine.l3
    return {
        "l1": RegionUse(l1.capacity_bytes, peaks["l1"], peaks["l1"], True),
        "l2": RegionUse(l2.capacity_bytes, peaks["l2"], bound, peaks["l2"] == bound),
        "l3": RegionUse(l3.capacity_bytes, weight_bytes, weight_bytes, True),
    }


def _gap_note(use: RegionUse, loads: Sequence[OpLoad], machine: MemoryMachine, storages: Storages) -> list[str]:
    """Why the peak is above the bound, where only the chunks' size is the reason."""
    gap = use.peak_bytes - use.lower_bound_bytes
    if not gap or use.peak_bytes != l2_lower_bound(loads, machine, storages, single_blocks=False):
        return []
    return [f"the least for weight chunks of this size; single weight blocks would save {gap} bytes of l2 at most"]


def l2_lower_bound(
    loads: Sequence[OpLoad], machine: MemoryMachine, storages: Storages, single_blocks: bool = True
) -> int:
    """Least L2 bytes for these buffers: live activations, one weight block, scratch, then context and stack.

    With `single_blocks` false the least chunk that the loads allow stands for the block. All offsets are multiples
    of the alignment, so every buffer below another takes its size rounded up.
    """
    weights = [load.block_bytes if single_blocks else load.floor_bytes for load in loads]
    problem = l2_problem(storages, loads, weights, machine.l2.alignment_bytes)
    return with_reserved(lower_bound_bytes(problem, "l2"), machine)


class _Names:
    """Buffer names, unique: a tensor may be called `stack`."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wish: str) -> str:
        name, number = wish, 2
        while name in self._taken:
            name, number = f"{wish}:{number}", number + 1
        self._taken.add(name)
        return name
