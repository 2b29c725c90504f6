"""What the page of an NNIE build shows beside what all pages show: segments, networks, choices of precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnkit.target import Shown, Table


def shown(details: Mapping[str, Any]) -> Shown:
    """From the report's details."""
    segments = tuple(
        (number, each["runs_on"], each["layers"], each.get("what", ""))
        for number, each in enumerate(details["segments"], 1)
    )
    networks = tuple(
        (each["name"], each["layers"], each["mapper"].get("status", "compiled")) for each in details["networks"]
    )
    choices = tuple(
        (
            row["choice"],
            f"{row['cosine']:.6f}",
            *((f"{row['sqnr_db']:.1f} dB",) if row["sqnr_db"] is not None else ("-",)),
            row["weight_bytes"],
            f"{row['macs_16_bit'] / row['macs']:.1%}" if row["macs"] else "-",
        )
        for row in details["precision"]
    )
    tables = (
        Table("Segments of the chip", ("#", "runs on", "layers", "what"), segments),
        Table("Networks for the mapper", ("network", "layers", "mapper"), networks),
        Table("Choices of precision", ("16 bits in", "cosine", "SQNR", "weight bytes", "16-bit MACs"), choices),
    )
    return Shown(tables=tuple(table for table in tables if table.rows))
