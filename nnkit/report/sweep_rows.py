"""Builds of a sweep side by side: a row each, as `sweep.csv` and `sweep.html` have it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from nnkit.report.csv_cell import plain_cell

RowState = Literal["waiting", "running", "ok", "unproven", "gate_failed", "mismatch", "failed"]


@dataclass(frozen=True)
class Row:
    """One build.

    name: of its recipe. target: its key. values: what was set, by axis. stage: where it is, while it runs. figures:
    see `figures_of`; empty until it is built. page: its `report.html`, from the folder of the table. reason: why it
    did not pass.
    """

    name: str
    target: str
    state: RowState
    values: Mapping[str, str] = field(default_factory=dict)
    stage: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    page: str = ""
    seconds: float | None = None
    reason: str = ""


FIGURES = (
    "memory_bytes",
    "weight_bytes",
    "metric",
    "value",
    "float_value",
    "cosine",
    "sqnr_db",
    "macs",
    "instructions",
    "cycles",
    "milliseconds",
)
"""Figures of every row, beside `<region>_bytes` for each memory; what was not measured is None."""


def figures_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """What a build takes and gives: peak of each memory, weights, the task's first metric, cycles.

    memory_bytes: the sum of the peaks; None where the vendor's compiler places all buffers.
    metric, value, float_value: name and value of the task's first metric against the truth, for the quantised and
    the float network; without labels, of its first against the float network (an agreement);
    where the recipe has no task, the cosine to the float network.
    """
    verify = report["verify"]
    distance, task = verify["float_vs_program"], verify.get("task") or {}
    detects = task.get("kind") == "detection"  # of which distances say nothing
    metrics: Sequence[Mapping[str, Any]] = task.get("metrics", ())
    truths = [metric for metric in metrics if metric["float"] is not None]
    first = next(iter([*truths, *metrics]), None)
    metric = ("cosine", distance["cosine"], None)
    if first is not None:
        metric = (first["name"], first["program"], first["float"])
    counted = [entry["instructions"] for entry in verify["program_vs_artifact"] if "instructions" in entry]
    speed = {entry["unit"]: entry["value"] for entry in reversed(report.get("speed", ()))}
    weights = report["planner"]["weight_bytes"] or sum(layer.get("weight_bytes") or 0 for layer in report["layers"])
    peaks = {f"{region}_bytes": use["peak_bytes"] for region, use in report["memory"].items()}
    return {
        **peaks,
        "memory_bytes": sum(peaks.values()) if peaks else None,
        "weight_bytes": weights or None,
        "metric": metric[0],
        "value": metric[1],
        "float_value": metric[2],
        "cosine": None if detects else distance["cosine"],
        "sqnr_db": None if detects else distance["sqnr_db"],
        "macs": report["macs"],
        "instructions": counted[0] if counted else None,
        "cycles": speed.get("cycles"),
        "milliseconds": speed.get("ms"),
    }


def axes_of(rows: Sequence[Row]) -> list[str]:
    """The axes that any row has a value on."""
    return list(dict.fromkeys(axis for row in rows for axis in row.values))


def regions_of(rows: Sequence[Row]) -> list[str]:
    """The memories that any build has: `l2_bytes`."""
    return [key for key in dict.fromkeys(key for row in rows for key in row.figures) if key not in FIGURES]


def sweep_csv(rows: Sequence[Row]) -> str:
    """The table as CSV: name, target, what was set, status, figures, seconds, the page, the reason."""
    axes, regions = axes_of(rows), regions_of(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", "target", *axes, "status", *regions, *FIGURES, "seconds", "page", "reason"])
    for row in rows:
        figures = [row.figures.get(key) for key in (*regions, *FIGURES)]
        values = [row.values.get(axis) for axis in axes]
        cells = [row.name, row.target, *values, row.state, *figures, row.seconds, row.page, row.reason]
        writer.writerow(["" if cell is None else plain_cell(cell) for cell in cells])
    return text.getvalue()
