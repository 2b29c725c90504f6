"""The memory plan of an affine program: activations, scratch and streamed weights in L2.

The pool is as small as its layers allow when convolutions may be cut into calls of sixteen output channels; under
that each layer's weights come in the fewest and most even chunks. Where this does not fit L2, chunks get smaller,
down to one output channel. Each chunk is fetched one call ahead where there is room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from nnkit.c.affine.call import Call, Code
from nnkit.c.affine.catalogue import codes_of
from nnkit.errors import DoesNotFitError, InternalError
from nnkit.memory.engine import Effort
from nnkit.memory.overlaps import with_overlaps
from nnkit.memory.packing import align_up
from nnkit.memory.plan import Buffer, BufferKind, MemoryPlan, Region, RegionUse, Step, TensorPlace, WeightChunk
from nnkit.program.affine import AffineProgram
from nnkit_gap8.affine.cluster import TILES_BYTES, AffineCluster
from nnkit_gap8.affine.network import AffineNetwork, channel_bytes, streamed_bytes
from nnkit_gap8.cluster.tile_plan import TilePlan
from nnkit_gap8.loads import MemoryMachine, with_reserved
from nnkit_gap8.not_fitting import l2_bytes
from nnkit_gap8.streaming import ChunkJob, ChunkPlace, place_chunks

AFFINE_STACK_BYTES = 2048  # reserved in L2; `runners.Rv32Runner` proves that the code stays inside
_CHANNELS = (16, 4, 1)
"""Least output channels of a chunk: each more chunk gathers the layer's windows once more."""


@dataclass(frozen=True, eq=False)
class AffinePlan:
    """The network as it is called, and its plan. weights: by call, where its tables lie in L2."""

    network: AffineNetwork
    plan: MemoryPlan
    weights: dict[int, int]
    tiles: TilePlan | None = None
    cores: int = 1


def affine_plan(
    program: AffineProgram,
    machine: MemoryMachine,
    weight_budget_bytes: int | None,
    effort: Effort | None = None,
    cluster: AffineCluster | None = None,
) -> AffinePlan:
    """Raises DoesNotFitError where L2, L3 or the budget of weights is exceeded, ModelError for what has no C."""
    codes = codes_of(program, "affine integers", "set `scheme: power_of_two`, or replace them")
    codes = codes if cluster is None else cluster.codes(codes)
    network, limited = _fitting(program, codes, machine, effort)
    jobs, offsets = [], []
    position = 0
    steps = network.layout.weights
    for step in steps:
        size = len(network.weights(step))
        jobs.append(ChunkJob(size, step, _before(network, step, as_early_as_may_be=cluster is not None)))
        offsets.append(position)
        position += align_up(size, machine.l3.alignment_bytes)
    _check_weights(network, position, machine.l3, weight_budget_bytes)
    pool = align_up(network.pool_bytes, 4)
    spots = place_chunks(jobs, _taken(network), [0] * len(network.work.calls), pool, 4)
    plan = _memory_plan(network, machine, pool, dict(zip(steps, spots, strict=True)), offsets, position)
    if limited:
        plan = replace(plan, notes=("weights come in chunks of few channels, to fit L2",))
    _check_chunks(network, plan)
    weights = {step: spot.offset_bytes for step, spot in zip(steps, spots, strict=True)}
    if cluster is None:
        return AffinePlan(network, plan, weights)
    tiles = cluster.tile_plan(network.work, network.layout.dropped, plan)
    return AffinePlan(network, _with_tiles(plan, tiles), weights, tiles, cluster.machine.cores)


def _with_tiles(plan: MemoryPlan, tiles: TilePlan) -> MemoryPlan:
    """The plan with what tiles take of L1."""
    buffers = dict(plan.buffers)
    for step, tiling in tiles.steps.items():
        name = f"tiles of call {step}"
        buffers[name] = Buffer(name, "scratch", "l1", 0, TILES_BYTES + tiling.layout.peak_bytes, step, step)
    peak = max((buffer.size_bytes for buffer in buffers.values() if buffer.region == "l1"), default=0)
    l1 = replace(plan.regions["l1"], peak_bytes=peak, lower_bound_bytes=peak)
    return replace(plan, buffers=buffers, regions={**plan.regions, "l1": l1})


def _fitting(
    program: AffineProgram, codes: Sequence[Code], machine: MemoryMachine, effort: Effort | None
) -> tuple[AffineNetwork, bool]:
    """The network with the largest chunks that keep the pool small; whether chunks had to get smaller to fit."""
    whole = AffineNetwork.of(program, codes, lambda _: 1 << 30, effort)
    held = [0] * len(program.ops)
    for step, owner in enumerate(whole.work.owners):
        held[owner] = max(held[owner], _live_bytes(whole, step))
    network = whole
    for channels in _CHANNELS:
        least = [
            held[index] + max((_least_bytes(call, channels) for call in code if isinstance(call, Call)), default=0)
            for index, code in enumerate(codes)
        ]
        target = max(least, default=0)
        network = AffineNetwork.of(program, codes, partial(_room, held, target), effort)
        if with_reserved(network.pool_bytes, machine) <= machine.l2.capacity_bytes:
            return network, channels != _CHANNELS[0]
    raise _too_large(network, machine)


def _room(held: Sequence[int], target: int, index: int) -> int:
    return target - held[index]


def _least_bytes(call: Call, channels: int) -> int:
    return min(channel_bytes(call) * channels or streamed_bytes(call), streamed_bytes(call))


def _live_bytes(network: AffineNetwork, step: int) -> int:
    """Bytes of L2 that hold anything but weights while a call runs."""
    spans = sorted(_taken_at(network, step))
    total = end = 0
    for first, last in spans:
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


def _taken_at(network: AffineNetwork, step: int) -> list[tuple[int, int]]:
    """What holds anything but weights in a step. A part of a concatenation is written across all of its bytes."""
    return [(start, end) for start, end, first, last in network.held if first <= step <= last]


def _taken(network: AffineNetwork) -> list[list[tuple[int, int]]]:
    return [_taken_at(network, step) for step in range(len(network.work.calls))]


def _before(network: AffineNetwork, step: int, *, as_early_as_may_be: bool) -> tuple[int, ...]:
    """The last call before this one that is made; or all from the last with weights on, whose wait is for its own."""
    made = [each for each in range(step) if each not in network.layout.dropped]
    if not as_early_as_may_be:
        return tuple(made[-1:])
    weighted = [each for each in made if each in network.layout.weights]
    return tuple(each for each in made if each >= max(weighted, default=0))


def _check_weights(network: AffineNetwork, total: int, l3: Region, budget_bytes: int | None) -> None:
    for limit, what in ((budget_bytes, "the weight budget"), (l3.capacity_bytes, "L3")):
        if limit is not None and total > limit:
            raise DoesNotFitError(
                f"the weights take {total:,} bytes, {total - limit:,} more than {what} of {limit:,}",
                where=network.program.name,
                remedy=f"{_narrower(network.program)}a smaller network"
                + ("" if what == "L3" else f", or a `weight_budget` of at least {total:,} bytes"),
            )


def _too_large(network: AffineNetwork, machine: MemoryMachine) -> DoesNotFitError:
    steps = range(len(network.work.calls))
    worst = max(steps, key=lambda step: _live_bytes(network, step))
    needed = with_reserved(network.pool_bytes, machine)
    capacity = machine.l2.capacity_bytes
    return DoesNotFitError(
        f"L2 needs {needed:,} bytes, {needed - capacity:,} more than the {capacity:,} there are; the peak is at "
        f"layer {network.program.ops[network.work.owners[worst]].name!r}",
        where=network.program.name,
        remedy=f"{_narrower(network.program)}a smaller input, or "
        f"`memory: {{l2: ...}}` of at least {l2_bytes(needed)}",
    )


def _narrower(program: AffineProgram) -> str:
    """Proposes 8 bits where there are 16: for all layers, or for some of those that are tagged."""
    wide = [tensor.format.bits > 8 for tensor in program.tensors.values()]
    if all(wide):
        return "`precision: int8`, "
    return "fewer layers of 16 bits, " if any(wide) else ""


def _check_chunks(network: AffineNetwork, plan: MemoryPlan) -> None:
    """No chunk lies where anything else does, from its copy's start to its use; the placement is checked already."""
    held: dict[int, list[tuple[int, int]]] = {step: _taken_at(network, step) for step in range(len(plan.steps))}
    for chunk in plan.chunks:
        buffer = plan.buffers[chunk.buffer]
        first, last = buffer.offset_bytes, buffer.offset_bytes + buffer.size_bytes
        for step in range(chunk.fetch_step, chunk.step + 1):
            if any(first < end and start < last for start, end in held[step]):
                raise InternalError(f"weights of {chunk.op!r} overlap what lives in step {step}", where="L2")
            held[step].append((first, last))


def _memory_plan(
    network: AffineNetwork,
    machine: MemoryMachine,
    pool_bytes: int,
    spots: dict[int, ChunkPlace],
    l3_offsets: Sequence[int],
    weight_bytes: int,
) -> MemoryPlan:
    program, layout, work = network.program, network.layout, network.work
    buffers: dict[str, Buffer] = {}
    last = max(len(work.calls) - 1, 0)
    for room in layout.rooms:
        if room.kind == "weights" or room.name in layout.inside:
            continue
        group = [each for each in layout.rooms if layout.outermost(each.name) == room.name]
        first, end = min(each.first_step for each in group), max(each.last_step for each in group)
        offset = layout.placement.places[room.name].offset_bytes
        buffers[room.name] = Buffer(room.name, room.kind, "l2", offset, room.size_bytes, first, min(end, last))
    numbers: dict[int, int] = {}
    chunks: list[WeightChunk] = []
    chunk_of: dict[int, int] = {}
    for (step, spot), l3_offset in zip(spots.items(), l3_offsets, strict=True):
        owner = work.owners[step]
        number = numbers.get(owner, 0)
        numbers[owner] = number + 1
        op, size = program.ops[owner].name, len(network.weights(step))
        name = f"{op}:weights:{number}"
        buffers[name] = Buffer(name, "weights", "l2", spot.offset_bytes, size, spot.fetch_step, step)
        chunk_of[step] = len(chunks)
        chunks.append(WeightChunk(op, number, 1, l3_offset, size, name, spot.fetch_step, step))
    end = align_up(pool_bytes, 4)
    reserved: tuple[tuple[BufferKind, int], ...] = (
        ("context", machine.context_bytes),
        ("stack", machine.stack_bytes),
        ("code", machine.code_bytes),
    )
    for kind, size in reserved:
        if not size:
            continue
        name = f"{kind}:reserved" if kind in buffers else kind  # a tensor may be called `stack`
        buffers[name] = Buffer(name, kind, "l2", end, size, 0, last)
        end = align_up(end + size, 4)
    places = {}
    for name, spot_of in layout.places.items():
        holder = layout.outermost(work.root(name))
        size = program.tensors[name].size_bytes
        places[name] = TensorPlace(name, holder, spot_of.offset_bytes - buffers[holder].offset_bytes, size)
    steps = tuple(
        Step(index, program.ops[work.owners[index]].name, chunk_of.get(index), call.reads, (call.write,))
        for index, call in enumerate(work.calls)
    )
    bound = with_reserved(layout.placement.peaks["l2"].lower_bound_bytes, machine)
    regions = {
        "l1": RegionUse(machine.l1.capacity_bytes, 0, 0, True),
        "l2": RegionUse(machine.l2.capacity_bytes, end, bound, end == bound),
        "l3": RegionUse(machine.l3.capacity_bytes, weight_bytes, weight_bytes, True),
    }
    plan = MemoryPlan("general", regions, buffers, places, steps, tuple(chunks), weight_bytes)
    return with_overlaps(plan, [call.accesses for call in work.calls])
