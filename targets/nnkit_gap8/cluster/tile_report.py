"""What the report says of tiles: how each layer is cut, what it moves, what the model expects of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from nnkit.c.fixed.machine import CoreMachine
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Program, macs
from nnkit_gap8.cluster import costs
from nnkit_gap8.cluster.l2_costs import cycles_on_l2, fixed_cycles_on_l2
from nnkit_gap8.cluster.tile_plan import TilePlan, Tiling


def network_cycles(tiles: TilePlan, plan: MemoryPlan, program: Program, machine: CoreMachine | None) -> float:
    """The model's cycles of one inference. machine: of the fixed-point kernels that work on L2."""
    return sum(step_cycles(tiles, plan, program, machine).values())


def step_cycles(tiles: TilePlan, plan: MemoryPlan, program: Program, machine: CoreMachine | None) -> dict[int, float]:
    """The model's cycles of every step, with its wait for weights from L3: steps run one after another.

    Fetches run beside the cores, one at a time, in the order in which they are started.
    """
    cycles: dict[int, float] = {}
    ops = {op.name: op for op in program.ops}
    blocks: Counter[str] = Counter()
    for chunk in plan.chunks:
        blocks[chunk.op] += chunk.blocks
    waits = {chunk.step: index for index, chunk in enumerate(plan.chunks)}
    ends: dict[int, float] = {}
    now = l3_free = 0.0
    for step in plan.steps:
        start = now
        own = waits.get(step.index)
        ahead = [i for i, chunk in enumerate(plan.chunks) if chunk.fetch_step == step.index and i != own]
        if own is not None:
            chunk = plan.chunks[own]
            if chunk.fetch_step == step.index:
                ends[own] = l3_free = max(now, l3_free) + costs.l3_cycles(chunk.size_bytes)
            now = max(now, ends[own])
        for index in ahead:
            ends[index] = l3_free = max(now, l3_free) + costs.l3_cycles(plan.chunks[index].size_bytes)
        if step.index in tiles.steps:
            now += tiles.steps[step.index].cycles
        else:
            op, share = ops[step.op], 1.0
            if own is not None:
                share = plan.chunks[own].blocks / blocks[step.op]
            if machine is None:
                now += cycles_on_l2(op, program, 1 if op.name in tiles.alone else tiles.cores, share)
            else:
                now += fixed_cycles_on_l2(op, program, plan, machine, share)
        cycles[step.index] = now - start
    return cycles


def tile_details(tiles: TilePlan, plan: MemoryPlan, program: Program, machine: CoreMachine | None) -> dict[str, Any]:
    """A row for every layer in tiles, by the layer; why others have none; the modelled cycles of the network.

    A layer's steps are added up. `bound`: what decides most of its cycles, `compute`, `dma` or `l3` (its weights).
    """
    rows: dict[str, dict[str, Any]] = {}
    names = {step.index: step.op for step in plan.steps}
    products = {op.name: macs(op, program) for op in program.ops}
    modelled = step_cycles(tiles, plan, program, machine)
    for step, tiling in tiles.steps.items():
        row = rows.setdefault(
            names[step],
            {
                "layer": names[step],
                "macs": products[names[step]],
                "tile": [tiling.channels, tiling.rows, tiling.op.width],
                "input_channels": _slice_channels(tiling),
                "tiles": 0,
                "steps": 0,
                "l1_bytes": 0,
                "dma_bytes": 0,
                "compute_cycles": 0,
                "dma_cycles": 0,
                "l3_cycles": 0,
                "modelled_cycles": 0,
                "candidates": 0,
                "proven_optimal": True,  # among uniform cuts; least_cycles bounds all others
                "least_cycles": 0,
            },
        )
        row["tiles"] += tiling.tiles
        row["steps"] += 1
        row["l1_bytes"] = max(row["l1_bytes"], tiling.layout.peak_bytes)
        row["dma_bytes"] += tiling.dma_bytes
        row["compute_cycles"] += round(tiling.compute_cycles)
        row["dma_cycles"] += round(tiling.dma_cycles)
        row["modelled_cycles"] += round(modelled[step])
        row["candidates"] += tiling.candidates
        row["least_cycles"] += round(tiling.least_cycles)
    for chunk in plan.chunks:
        if chunk.op in rows:
            rows[chunk.op]["l3_cycles"] += round(costs.l3_cycles(chunk.size_bytes))
    for row in rows.values():
        parts = {"compute": row["compute_cycles"], "dma": row["dma_cycles"], "l3": row["l3_cycles"]}
        row["bound"] = max(parts, key=lambda part: parts[part])
    on_l2 = dict.fromkeys(tiles.untiled, 0.0)
    for step, cycles in modelled.items():
        if names[step] in on_l2:
            on_l2[names[step]] += cycles
    return {
        "cores": tiles.cores,
        "macs": sum(products.values()),
        "l1_budget_bytes": tiles.budget_bytes,
        "l1_bytes": tiles.l1_bytes,
        "layers": list(rows.values()),
        "on_l2": dict(tiles.untiled),
        "on_l2_cycles": {name: round(cycles) for name, cycles in on_l2.items()},
        "modelled_cycles": round(sum(modelled.values())),
    }


def _slice_channels(tiling: Tiling) -> int | None:
    """Input channels of a slice; None: a tile has all that it needs."""
    slices = tiling.op.slices
    return tiling.slice_groups * slices.lanes if slices is not None and tiling.slice_groups else None
