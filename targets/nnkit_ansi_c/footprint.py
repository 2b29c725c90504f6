"""What a library takes of flash and RAM, and how long it runs, in the lines that end a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnkit.memory.plan import MemoryPlan
from nnkit_ansi_c.cycles import duration
from nnkit_ansi_c.plan import CALLER


def footprint(plan: MemoryPlan, smallest_arena_bytes: int | None, cycles: Mapping[str, Any]) -> dict[str, Any]:
    """For the report's details: `flash_bytes` (weights, without code), `ram_bytes` (without the stack), `summary`.

    smallest_arena_bytes: what stripes of rows would take; None: not known to be less. cycles: by core, as estimated.
    """
    held = {buffer.region for buffer in plan.buffers.values() if buffer.kind == "weights"}
    values = {name: use.peak_bytes for name, use in plan.regions.items() if name not in held}
    ports = values.pop(CALLER)
    working = sum(values.values())
    total = working + ports
    parts = f"{working:,} B of working memory + {ports:,} B of inputs and outputs"
    lines = [f"RAM      {parts} = {total:,} B, and the stack"]
    known: dict[str, Any] = {"flash_bytes": plan.l3_weight_bytes, "ram_bytes": total}
    if smallest_arena_bytes is not None:
        known["smallest_arena_bytes"] = smallest_arena_bytes
        smaller = f"{smallest_arena_bytes:,} B of arena would do, in stripes of rows"
        lines.append(f"smaller  {smaller}: arena: {smallest_arena_bytes}")
    lines += [_time(core, each) for core, each in cycles.items()]
    return known | {"summary": lines}


def _time(core: str, each: Mapping[str, Any]) -> str:
    missing, layers = len(each["not_estimated"]), len(each["layers"])
    time = f"{duration(each['milliseconds'])} on {core} at {each['clock_mhz']:g} MHz"
    if missing:
        return f"time     at least {time}, estimated; {missing} of {layers} layers have no estimate"
    error = f"up to {100 * each['error']:.0f} % off"
    return f"time     about {time}, estimated: {error}, waits for memory not counted"
