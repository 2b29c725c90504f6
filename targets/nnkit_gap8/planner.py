"""The memory plan of a Program on GAP8: activations and weight chunks in L2, kernels' scratch in L1, weights in L3.

Policy, in this order:

1. the least L2 peak, with small weight chunks: what the kernels wish, smaller for the ops that bind the peak while
   that costs few instructions, single blocks where only that fits;
2. under that peak, the largest chunks: whole layers where they fit, otherwise few and even ones;
3. under that peak, each chunk's copy issued one step ahead where there is room for it.

Two planners place the activations: the floating border of the published application (`border`), where
weights follow the second buffer, and the general allocator (`nnkit.memory.placing`). `auto` takes the better.

Layout of L2: the pool with activations and weights from offset 0, then the context, then the stack.

The lower bound is, over all ops, the largest sum of live activation buffers, the largest single weight block,
scratch, context and stack; no placement of these buffers can do with less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from nnkit.errors import DoesNotFitError
from nnkit.memory.lifetimes import Storages
from nnkit.memory.packing import align_up
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Program
from nnkit_gap8 import border, not_fitting
from nnkit_gap8.assembly import assemble
from nnkit_gap8.l2_problem import l2_problem
from nnkit_gap8.loads import (
    MemoryMachine,
    NeedsOf,
    OpLoad,
    Placed,
    choose_loaded_storages,
    chunk_counts,
    op_loads,
    parts,
    spend_on_smaller_chunks,
    with_reserved,
    with_single_blocks,
)
from nnkit_gap8.placements import Placements

PlannerName: TypeAlias = Literal["auto", "border", "general"]


def plan(
    program: Program,
    needs: NeedsOf,
    machine: MemoryMachine,
    *,
    planner: PlannerName = "auto",
    weight_budget_bytes: int | None = None,
    repack_limit: float = 0.01,
    placements: Placements | None = None,
) -> MemoryPlan:
    """Plan every buffer of `program`.

    Args:
        needs: what each op's kernel needs beside its tensors.
        planner: "border" (chains and Fires only), "general", or "auto": both, and the better of them.
        weight_budget_bytes: a gate on the sum of all weights in L3.
        repack_limit: how much of the run's instructions may be spent on gathering inputs again for smaller
            chunks, as a fraction, where that lowers the peak.
        placements: those of other plans of this build, which need not be searched again.

    Raises:
        DoesNotFitError: a region or the weight budget is exceeded, or `border` does not apply to this graph.
        InternalError: the program or the needs contradict themselves.
    """
    loads = op_loads(program, needs, machine)
    not_fitting.check_weights(program, loads, machine.l3, weight_budget_bytes)
    not_fitting.check_scratch(program, loads, machine.l1)
    alignment = machine.l2.alignment_bytes
    placements = placements or Placements()
    storages, least = choose_loaded_storages(program, with_single_blocks(loads), alignment, placements.storages)
    loads = [replace(load, overwrites=known.overwrites) for load, known in zip(loads, least, strict=True)]
    reserves = machine.context_bytes or machine.stack_bytes
    job = _Job(program, storages, alignment, alignment if reserves else 1, planner, placements)
    notes: list[str] = []
    best = _best_placement(job, loads, repack_limit, notes)
    if with_reserved(best.pool_bytes, machine) > machine.l2.capacity_bytes:
        smaller = _best_placement(job, least, 0.0, [])
        if with_reserved(smaller.pool_bytes, machine) > machine.l2.capacity_bytes:
            raise not_fitting.l2_error(program, machine, storages, least, smaller.pool_bytes)
        notes.append("weights are cut into chunks smaller than the kernels wish, to fit L2")
        best = smaller
    if machine.prefetch_pool_bytes > best.pool_bytes:
        best = replace(best, pool_bytes=machine.prefetch_pool_bytes)
    return assemble(program, machine, best, notes)


@dataclass(frozen=True)
class _Job:
    program: Program
    storages: Storages
    alignment: int
    pool_alignment: int  # the pool's end is rounded up where something follows it
    planner: PlannerName
    placements: Placements


def _best_placement(job: _Job, loads: Sequence[OpLoad], repack_limit: float, notes: list[str]) -> Placed:
    tried: list[Placed] = []
    if job.planner in ("auto", "general"):
        # First, so that it wins a tie: it lets weights take any gap, and its chunks are at least as large.
        placed = _by_engine(job, loads, repack_limit)
        notes.append(f"general planner: {placed.pool_bytes:,} bytes of activations and weights")
        tried.append(placed)
    if job.planner in ("auto", "border"):
        by_border = _by_border(job, loads, repack_limit)
        if isinstance(by_border, Placed):
            notes.append(f"border planner: {by_border.pool_bytes:,} bytes of activations and weights")
            tried.append(by_border)
        elif job.planner == "border":
            raise DoesNotFitError(
                f"the border planner does not apply: {by_border.reason}",
                where=job.program.name,
                remedy="use the planner 'general' or 'auto'",
            )
        else:
            notes.append(f"border planner declined: {by_border.reason}")
    return min(tried, key=lambda p: p.pool_bytes)


def _by_border(job: _Job, loads: Sequence[OpLoad], repack_limit: float) -> Placed | border.Declined:
    buffers, alignment = job.storages.buffers, job.alignment
    layout = border.border_layout(buffers, alignment)
    if isinstance(layout, border.Declined):
        return layout
    tops = [align_up(border.top_bytes(buffers, layout, index), alignment) for index in range(len(loads))]
    loads = spend_on_smaller_chunks(job.program, loads, tops, alignment, repack_limit)
    scratch = [top if load.l2_scratch_bytes else None for top, load in zip(tops, loads, strict=True)]
    floors = [top + load.l2_scratch_bytes for top, load in zip(tops, loads, strict=True)]
    pool = border.top_bytes(buffers, layout, 0)
    pool = max([pool] + [floor + load.floor_bytes for floor, load in zip(floors, loads, strict=True)])
    return Placed(
        planner="border",
        loads=tuple(loads),
        storages=job.storages,
        offsets=layout.offsets_bytes,
        scratch_offsets=tuple(scratch),
        pool_bytes=align_up(pool, job.pool_alignment),
        weight_floor=tuple(floors),
    )


def _by_engine(job: _Job, loads: Sequence[OpLoad], repack_limit: float) -> Placed:
    live = job.storages.live_bytes(len(loads), job.alignment)[: len(loads)]
    loads = spend_on_smaller_chunks(job.program, loads, live, job.alignment, repack_limit)
    least = _solve(job, loads, [load.floor_bytes for load in loads])
    # The same peak with the chunks that would be ideal under it, if the activations can be arranged around them.
    ideal = []
    for held, load in zip(live, loads, strict=True):
        room = align_up(least.pool_bytes, job.alignment) - held - load.l2_scratch_bytes
        ideal.append(max((sum(part) for part in parts(load.blocks, chunk_counts(load, room))), default=0))
    roomy = _solve(job, loads, ideal)
    return roomy if roomy.pool_bytes <= least.pool_bytes else least


def _solve(job: _Job, loads: Sequence[OpLoad], chunk_bytes: Sequence[int]) -> Placed:
    storages = job.storages
    placement = job.placements.of(l2_problem(storages, loads, chunk_bytes, job.alignment))
    offsets = {name: spot.offset_bytes for name, spot in placement.places.items()}
    return Placed(
        planner="general",
        loads=tuple(loads),
        storages=storages,
        offsets=tuple(offsets[f"a{i}"] for i in range(len(storages.buffers))),
        scratch_offsets=tuple(offsets.get(f"s{i}") for i in range(len(loads))),
        pool_bytes=align_up(placement.peaks["l2"].peak_bytes, job.pool_alignment),
        weight_floor=(0,) * len(loads),
    )
