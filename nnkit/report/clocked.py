"""Counted instructions as an estimate of time, at a clock that is stated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnkit.runner import LayerTime, Speed

TIMES = ("milliseconds", "cycles")


def times(
    report: Mapping[str, Any], speed: Sequence[Speed], layers: Mapping[str, LayerTime], clock_hz: int | None
) -> dict[str, list[dict[str, Any]]]:
    """`speed` and `layers` of a report, which follow from the rest of it and what its target makes of that."""
    stated = speed or clocked(report["verify"]["program_vs_artifact"], clock_hz)
    counted = [{key: value for key, value in layer.items() if key not in TIMES} for layer in report["layers"]]
    return {"speed": [each.as_json() for each in stated], "layers": with_times(counted, clock_hz, layers)}


def clocked(runs: Sequence[Mapping[str, Any]], clock_hz: int | None) -> list[Speed]:
    """Milliseconds of each runner that counts instructions: one a cycle, on one core, memory without delay.

    runs: of the report, `program_vs_artifact`.
    """
    if clock_hz is None:
        return []
    return [
        Speed(
            "time",
            1e3 * run["instructions"] / clock_hz,
            "ms",
            "estimate",
            f"the instructions of {run['how']} at {clock_hz / 1e6:g} MHz, one a cycle on one core",
        )
        for run in runs
        if "instructions" in run
    ]


def with_times(
    layers: Sequence[Mapping[str, Any]], clock_hz: int | None, told: Mapping[str, LayerTime]
) -> list[dict[str, Any]]:
    """The report's layers with `milliseconds` and `cycles`, where they are known; both are estimates.

    told: by the target. Of other layers the counted instructions, one a cycle, as in `clocked`.
    """
    rows = []
    for layer in layers:
        row = dict(layer)
        time = told.get(layer["name"])
        if time is None and clock_hz is not None and layer.get("instructions") is not None:
            time = LayerTime(1e3 * layer["instructions"] / clock_hz)
        if time is not None:
            row["milliseconds"] = round(time.milliseconds, 6)
            row |= {} if time.cycles is None else {"cycles": time.cycles}
        rows.append(row)
    return rows
