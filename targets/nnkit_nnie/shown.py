"""What the page of an NNIE build shows beside what all pages show: segments, networks, choices of precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnkit.mixed_precision.tried import TriedLayers
from nnkit.runner import LayerTime, Speed
from nnkit.target import LocalMemory, Shown, Span, Table

_CHOICES = {
    "no_hp": "no layer (no_hp)",
    "lastfc_hp": "the last fully connected layer (lastfc_hp)",
    "fullfc_hp": "all fully connected layers (fullfc_hp)",
    "lastconv_hp": "the last layers with weights (lastconv_hp)",
    "firstconv_hp": "the first convolutions (firstconv_hp)",
    "all": "all layers",
    "as_built": "the layers of this build",
    "not_corrected": "the layers of this build, weights not corrected",
}


def shown(details: Mapping[str, Any]) -> Shown:
    """From the report's details."""
    parts = tuple(each.get("what", "") for each in details["segments"])
    networks = tuple(
        (each["name"], each["layers"], each["mapper"].get("status", "compiled")) for each in details["networks"]
    )
    tables = (
        Table("Networks for the mapper", ("network", "layers", "mapper"), networks),
        _choices(details["precision"]),
    )
    return Shown(
        speed=(_speed(details),),
        tables=tuple(table for table in tables if table.rows),
        memories=_memories(details["segments"]),
        tried=_tried(details),
        layer_times={name: LayerTime(time) for name, time in details["layer_milliseconds"].items()},
        segments=parts if any(parts) else (),
    )


def _choices(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The usual choices of precision; lists of detections are judged by their agreement, all else by distance."""
    judged: tuple[str, ...] = ("cosine", "SQNR")
    if _detects(rows):
        judged = tuple(str(metric["name"]).replace("_", " ") for metric in rows[0]["task"])
    lines = tuple(
        (
            _CHOICES.get(row["choice"], row["choice"]),
            *(_agreements(row) if _detects(rows) else _distances(row)),
            row["weight_bytes"],
            f"{row['macs_16_bit'] / row['macs']:.1%}" if row["macs"] else "-",
            f"{row['estimate']['milliseconds']:.2f} ms" if "estimate" in row else "-",
        )
        for row in rows
    )
    columns = ("16 bits in", *judged, "weight bytes", "16-bit MACs", "time (estimate)")
    return Table("Choices of precision", columns, lines, "accuracy")


def _detects(rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(row.get("task_kind") == "detection" for row in rows)


def _agreements(row: Mapping[str, Any]) -> tuple[str, ...]:
    values = (metric["program"] for metric in row["task"])
    return tuple("-" if value is None else f"{value:.4f}" for value in values)


def _distances(row: Mapping[str, Any]) -> tuple[str, str]:
    return f"{row['cosine']:.6f}", "-" if row["sqnr_db"] is None else f"{row['sqnr_db']:.1f} dB"


def _speed(details: Mapping[str, Any]) -> Speed:
    estimate = details["estimate"]
    source = "fitted to public measurements of" if estimate["speed_measured"] else "scaled from another chip to"
    how = f"nnkit's model of products, weight transfers and layers, {source} the {details['chip']}, without the CPU"
    return Speed("time on the NNIE", estimate["milliseconds"], "ms", "estimate", how)


def _memories(segments: Sequence[Mapping[str, Any]]) -> tuple[LocalMemory, ...]:
    """Maps that are alive at once in each segment, which the mapper and the CPU's code place."""
    spans = tuple(
        Span(
            f"segment {number} ({each['runs_on']})",
            each["first"],
            each["last"],
            each["alive_bytes"],
            "activation" if each["runs_on"] == "nnie" else "weights",
        )
        for number, each in enumerate(segments, 1)
    )
    title = "Feature maps alive at once, by segment (estimate)"
    return (LocalMemory("segments", title, None, spans),) if any(span.size_bytes for span in spans) else ()


def _tried(details: Mapping[str, Any]) -> tuple[TriedLayers, ...]:
    """The usual choices of precision; of lists of detections distances say nothing, and no build is advised there."""
    rows = details["precision"]
    if _detects(rows):
        return ()
    return tuple(
        TriedLayers(
            tuple(row["layers"]),
            row["sqnr_db"],
            row["weight_bytes"],
            row["built"],
            everywhere=row["choice"] == "all",
            options="compile_mode: 1" if row["choice"] == "all" else "compile_mode: 2",
        )
        for row in rows
        if row["sqnr_db"] is not None
    )
