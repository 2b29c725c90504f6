"""What the page of an ansi_c build shows beside what all pages show: cycles as they are estimated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnkit.runner import LayerTime, Speed
from nnkit.target import Shown, Table
from nnkit_ansi_c.plan import ARENA

_NOT_ESTIMATED = "not estimated"


def shown(details: Mapping[str, Any]) -> Shown:
    """From the report's details: cycles of the network on the first core, and of each layer on all."""
    told = details.get("estimated_cycles") or {}
    smaller = details.get("smallest_arena_bytes")
    proofs = {}
    if smaller is not None:
        proofs[ARENA] = f"whole layers need so much; in stripes of rows {smaller:,} B would do (`arena: {smaller}`)"
    if not told:
        return Shown(proofs=proofs)
    core, first = next(iter(told.items()))
    missing = len(first["not_estimated"])
    left = f"; {missing} layers have no estimate and are not in it" if missing else ""
    how = (
        f"from the shapes of the layers, on {core}, one an instruction; up to {100 * first['error']:.0f} % off on "
        f"networks that had no part in the fit{left}"
    )
    rows = tuple(
        (name, *(_NOT_ESTIMATED if each["layers"][name] is None else each["layers"][name] for each in told.values()))
        for name in first["layers"]
    )
    clock = first["clock_mhz"]
    at = f"these cycles on {core} at {clock:g} MHz (`clock_mhz` of the recipe states another)"
    known = {name: cycles for name, cycles in first["layers"].items() if cycles is not None}
    times = {name: LayerTime(cycles / clock / 1e3, cycles) for name, cycles in known.items()}
    return Shown(
        speed=(
            Speed("time", first["milliseconds"], "ms", "estimate", at),
            Speed("cycles", first["cycles"], "cycles", "estimate", how),
        ),
        layer_times=times,
        proofs=proofs,
        tables=(Table("Estimated cycles of each layer", ("layer", *told), rows),),
    )
