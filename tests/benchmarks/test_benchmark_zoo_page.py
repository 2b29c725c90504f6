"""The page of support says of every row what the row says."""

from __future__ import annotations

from benchmarks.zoo.page import cell, page

ROWS = [
    {
        "network": "a",
        "exporter": "dynamo",
        "target": "t",
        "status": "ok",
        "mismatches": 0,
        "sqnr_db": 31.25,
        "reason": "",
    },
    {
        "network": "a",
        "exporter": "dynamo",
        "target": "u",
        "status": "ok",
        "mismatches": 0,
        "sqnr_db": None,
        "reason": "",
    },
    {
        "network": "b",
        "exporter": "dynamo",
        "target": "t",
        "status": "refused",
        "sqnr_db": None,
        "reason": "2 layers cannot be deployed (1 LRN, 1 Einsum):\n  n1 (LRN): op LRN is unknown\n  e (Einsum): no",
    },
    {"network": "b", "exporter": "dynamo", "target": "u", "status": "failed", "sqnr_db": 3.0, "reason": "x:\n 5"},
]


def test_cells() -> None:
    assert [cell(row) for row in ROWS] == ["31.2", "exact", "refused: LRN, Einsum", "**failed**"]


def test_what_was_not_built_is_marked() -> None:
    assert cell({**ROWS[0], "mismatches": None}) == "quantised, 31.2"


def test_page() -> None:
    text = page(ROWS)
    assert "| a | 31.2 | exact |\n| b | refused: LRN, Einsum | **failed** |\n" in text
    assert "`t` takes 1 of 2, `u` takes 1 of 2.\n" in text
    assert "- b (dynamo) on `u`: x: 5\n" in text
