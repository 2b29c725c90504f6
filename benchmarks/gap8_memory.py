"""Peaks of L2: nnkit's planners, their lower bound and simple allocators, on networks and on plain lifetimes.

    python -m benchmarks.gap8_memory [--networks A,B] [--hard] [--json]

Networks are int16 `wide` for GAP8. Every planner and peer gets the same buffers: activations (shared and in place as
nnkit decides), the least chunk of weights of each layer, and the reserves for context and stack. With NNKIT_SHARED
set, the allocator is also run on the lifetimes in its folder `allocation` (--hard: the hard instances, too).
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.building import Built, Workshop
from benchmarks.networks import Network, available, shared_folder
from benchmarks.peers import Buffer, first_fit_by_size, first_fit_by_start
from benchmarks.table import Row, ratio, show
from nnkit.c.fixed.catalogue import operator_c
from nnkit.c.fixed.machine import CoreMachine
from nnkit.errors import NnkitError
from nnkit.memory import engine
from nnkit.memory.checker import check_plan
from nnkit.memory.needs import KernelNeeds
from nnkit.memory.plan import MemoryPlan, Region
from nnkit.program import Op
from nnkit_gap8.emit import CONTEXT_BYTES, STACK_BYTES
from nnkit_gap8.loads import (
    MemoryMachine,
    choose_loaded_storages,
    op_loads,
    spend_on_smaller_chunks,
    with_reserved,
    with_single_blocks,
)
from nnkit_gap8.options import Gap8Options
from nnkit_gap8.planner import PlannerName, plan

PUBLISHED_PEAK_BYTES = 351_872  # L2 of the published application, for its network
_MACHINE = CoreMachine(8, 64 << 10)
_REPACK_LIMIT = Gap8Options().repack_limit
_ROOMY = 1 << 30  # so that a planner that would not fit shows by how much


def network_row(workshop: Workshop, network: Network) -> Row:
    """Peaks in bytes, and the milliseconds that the default planner takes (checked plan included)."""
    built = workshop.program(network, "precision: int16")
    auto, seconds = _planned(built, "auto")
    row: dict[str, str | int | float | None] = {"network": network.name, "auto": _peak(auto)}
    row["lower bound"] = auto.regions["l2"].lower_bound_bytes
    row["optimal"] = auto.regions["l2"].proven_optimal
    row["general"] = _peak(_planned(built, "general")[0])
    try:
        row["border"] = _peak(_planned(built, "border")[0])
    except NnkitError:
        row["border"] = None  # no chain of layers and Fire modules
    row |= _peers(built)
    row["published"] = PUBLISHED_PEAK_BYTES if network.published_formats is not None else None
    row["published/auto"] = ratio(_number(row["published"]), _peak(auto))
    row["no reuse/auto"] = ratio(_number(row["no reuse"]), _peak(auto))
    row["auto/bound"] = round(_peak(auto) / auto.regions["l2"].lower_bound_bytes, 4)
    row["plan ms"] = round(1000 * seconds, 1)
    return row


def lifetimes_row(path: Path) -> Row:
    """nnkit's allocator and the peers on a file of lifetimes: id, lower, upper (exclusive), size."""
    with path.open(newline="", encoding="utf-8") as stream:
        entries = [(e["id"], int(e["lower"]), int(e["upper"]), int(e["size"])) for e in csv.DictReader(stream)]
    buffers = [Buffer(size, lower, upper - 1) for _, lower, upper, size in entries if upper > lower]
    items = tuple(engine.Item(f"{i}", b.size_bytes, b.first, b.last) for i, b in enumerate(buffers))
    began = time.perf_counter()
    solution = engine.solve(items)
    seconds = time.perf_counter() - began
    offsets = [solution.offsets_bytes[item.id] for item in items]
    _check(buffers, offsets)
    row: dict[str, str | int | float | None] = {
        "lifetimes": path.name.split(".csv")[0],
        "buffers": len(buffers),
        "peak": solution.peak_bytes,
        "lower bound": solution.lower_bound_bytes,
        "certificate": solution.certificate.reason,
        "method": solution.certificate.method,
        "seconds": round(seconds, 3),
        "peak/bound": round(solution.peak_bytes / solution.lower_bound_bytes, 4),
    }
    for name, peer in _ALLOCATORS.items():
        offsets = peer(buffers, 1)
        _check(buffers, offsets)
        row[f"{name}/bound"] = round(_end(buffers, offsets) / solution.lower_bound_bytes, 4)
    return row


_ALLOCATORS: dict[str, Callable[[list[Buffer], int], list[int]]] = {
    "by size": first_fit_by_size,
    "by start": first_fit_by_start,
}


def _machine() -> MemoryMachine:
    l1, l2, l3 = Region("l1", _MACHINE.scratch_bytes), Region("l2", _ROOMY), Region("l3", _ROOMY)
    return MemoryMachine(l1, l2, l3, context_bytes=CONTEXT_BYTES, stack_bytes=STACK_BYTES)


def _planned(built: Built, planner: PlannerName) -> tuple[MemoryPlan, float]:
    def needs(op: Op) -> KernelNeeds:
        return operator_c(op).needs(op, built.program, _MACHINE)

    began = time.perf_counter()
    planned = plan(built.program, needs, _machine(), planner=planner, repack_limit=_REPACK_LIMIT)
    check_plan(built.program, planned, needs)
    return planned, time.perf_counter() - began


def _peers(built: Built) -> Row:
    """Peaks of simple allocators on the buffers that nnkit's general planner places."""
    program, machine = built.program, _machine()
    alignment = machine.l2.alignment_bytes
    loads = op_loads(program, lambda op: operator_c(op).needs(op, program, _MACHINE), machine)
    storages, _ = choose_loaded_storages(program, with_single_blocks(loads), alignment)
    live = storages.live_bytes(len(loads), alignment)[: len(loads)]
    chunked = spend_on_smaller_chunks(program, loads, live, alignment, _REPACK_LIMIT)
    extra = [load.floor_bytes + load.l2_scratch_bytes for load in chunked]
    buffers = [Buffer(b.size_bytes, b.first_op, b.last_op) for b in storages.buffers]
    buffers += [Buffer(size, index, index) for index, size in enumerate(extra) if size]
    row: dict[str, int] = {}
    for name, allocate in _ALLOCATORS.items():
        offsets = allocate(buffers, alignment)
        _check(buffers, offsets)
        row[name] = with_reserved(_end(buffers, offsets), machine)
    tensors = sum(program.tensors[name].size_bytes for name in [*program.inputs, *(op.output for op in program.ops)])
    row["no reuse"] = with_reserved(tensors + sum(sum(load.blocks) for load in loads), machine)
    return row


def _check(buffers: list[Buffer], offsets: list[int]) -> None:
    for i, a in enumerate(buffers):
        for j in range(i):
            b = buffers[j]
            apart = offsets[i] + a.size_bytes <= offsets[j] or offsets[j] + b.size_bytes <= offsets[i]
            if a.first <= b.last and b.first <= a.last and not apart:
                raise SystemExit(f"buffers {i} and {j} overlap")


def _end(buffers: list[Buffer], offsets: list[int]) -> int:
    return max(offset + buffer.size_bytes for offset, buffer in zip(offsets, buffers, strict=True))


def _peak(planned: MemoryPlan) -> int:
    return planned.regions["l2"].peak_bytes


def _number(cell: str | int | float | None) -> float | None:
    return float(cell) if isinstance(cell, int | float) else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gap8_memory")
    parser.add_argument("--networks", help="names, separated by commas (also: tiny)")
    parser.add_argument("--hard", action="store_true", help="also the hard instances of the allocation literature")
    parser.add_argument("--no-lifetimes", action="store_true", help="networks only")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nnkit-bench-") as name:
        workshop = Workshop(Path(name))
        wanted = arguments.networks.split(",") if arguments.networks else None
        networks = [network_row(workshop, network) for network in available(Path(name), wanted)]
    shared = shared_folder()
    files: list[Path] = []
    if shared is not None and not arguments.no_lifetimes:
        files = sorted((shared / "allocation" / "nets").glob("*.csv"))
        files += sorted((shared / "allocation").glob("[A-Z].*.csv")) if arguments.hard else []
    lifetimes = [lifetimes_row(path) for path in files]
    if arguments.json:
        show([*networks, *lifetimes], as_json=True)
        return
    show(networks, as_json=False, title="Peak bytes of L2 on GAP8, int16")
    if lifetimes:
        show(lifetimes, as_json=False, title="The allocator on lifetimes of real networks, bytes")


if __name__ == "__main__":
    main()
