"""What the page of a TPU build shows beside what all pages show: its layer groups in local memory, and cycles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnkit.runner import LayerTime, Speed
from nnkit.target import Bar, Lane, LocalMemory, Shown, Span, Table, Timeline
from nnkit_tpu.chips import Chip, chip_named


def shown(details: Mapping[str, Any]) -> Shown:
    """From the report's details: the planned groups with the bytes of a lane, and the cycles of those compiled."""
    plan = details["plan"]
    groups = plan["groups"]
    rows = tuple(
        (
            number,
            group["ops"][0],
            group["ops"][-1],
            len(group["ops"]),
            f"{group['slices']['n']} x {group['slices']['h']}",
            group["lane"]["live_bytes"],
            group["lane"]["capacity_bytes"],
            group["estimated_cycles"],
            group["load_bytes"],
            group["store_bytes"],
        )
        for number, group in enumerate(groups, 1)
    )
    columns = (
        *("#", "first layer", "last layer", "layers", "slices n x h", "bytes of a lane", "of"),
        *("estimated cycles", "bytes loaded", "bytes stored"),
    )
    spans = tuple(
        Span(f"group {number}", group["ops"][0], group["ops"][-1], group["lane"]["live_bytes"])
        for number, group in enumerate(groups, 1)
    )
    lane = groups[0]["lane"]["capacity_bytes"] if groups else 0
    return Shown(
        speed=_speed(details),
        tables=(Table("Layer groups, as nnkit plans them", columns, rows),) if rows else (),
        memories=(LocalMemory("lane", "Local memory of a lane, by layer group", lane, spans),) if spans else (),
        timelines=_timelines(details.get("layer_groups") or {}),
        layer_times=_layer_times(details),
    )


def _layer_times(details: Mapping[str, Any]) -> dict[str, LayerTime]:
    """The arithmetic of each layer by itself; cycles of the chips that have a simulator of them."""
    cycles = {} if chip_named(details["chip"]).is_cv else details["plan"]["layer_cycles"]
    times = details.get("layer_milliseconds", {})
    return {name: LayerTime(time, cycles.get(name)) for name, time in times.items()}


def _timelines(compiled: Mapping[str, Any]) -> tuple[Timeline, ...]:
    """The released model's units over time, where the compiler simulated it."""
    cycles = (compiled.get("ours") or {}).get("cycles")
    lanes = tuple(
        Lane(name, tuple(Bar(*bar) for bar in bars))
        for name, bars in (compiled.get("timeline") or {}).items()
        if bars
    )
    if cycles is None or not lanes:
        return ()
    return (Timeline("Layers over time, by the compiler's simulator", "cycles", cycles, lanes),)


def _speed(details: Mapping[str, Any]) -> tuple[Speed, ...]:
    """Milliseconds, then the cycles that they come from; of the cv18xx, whose cycles no one tells, a bound."""
    chip = chip_named(details["chip"])
    if chip.is_cv:
        return _least_time(chip, details)
    images = details.get("batch", 1)
    of = "" if images == 1 else f", {images} images at a time"
    compiled = details.get("layer_groups") or {}
    for whose in ("ours", "vendor"):
        cycles = (compiled.get(whose) or {}).get("cycles")
        if cycles is not None:
            return _clocked(chip, cycles, f"the compiler's simulator of the compiled model{of}")
    return _clocked(chip, details["plan"]["estimated_cycles"], "nnkit's model of the layer groups")


def _clocked(chip: Chip, cycles: int, how: str) -> tuple[Speed, ...]:
    counted = Speed("cycles", cycles, "cycles", "estimate", how)
    if chip.clock_hz is None:
        return (counted,)
    at = f"these cycles at {chip.clock_hz / 1e6:g} MHz, on one core, memory as fast as the simulator has it"
    return Speed("time", 1e3 * cycles / chip.clock_hz, "ms", "estimate", at), counted


def _least_time(chip: Chip, details: Mapping[str, Any]) -> tuple[Speed, ...]:
    """What the multiplications alone take at the rate that the maker states; transfers come on top."""
    macs = details.get("macs")
    if chip.operations_per_second is None or not macs or details["precision"] != "int8":
        return ()
    how = (
        f"a lower bound: {macs:,} multiply-accumulates at the {chip.operations_per_second / 1e12:g} TOPS that the "
        "maker states, without transfers"
    )
    return (Speed("time, at least", 2e3 * macs / chip.operations_per_second, "ms", "estimate", how),)
