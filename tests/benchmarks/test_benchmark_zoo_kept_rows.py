"""Kept rows: a later one replaces an earlier one; and the page in the docs is the page of the rows that are kept."""

from __future__ import annotations

from pathlib import Path

from benchmarks.zoo.kept_rows import KEPT, add, chosen, read
from benchmarks.zoo.page import page

DOCS = Path(__file__).parents[2] / "docs"
ROW = {"network": "b", "exporter": "dynamo", "target": "t", "status": "refused", "mismatches": None, "sqnr_db": None}


def test_a_row_that_is_run_again_replaces_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert read(path) == []
    add(path, {**ROW, "reason": "no " * 5000, "seconds": 3.5})
    add(path, {**ROW, "network": "a", "reason": "", "seconds": 1.0})
    add(path, {**ROW, "status": "ok", "sqnr_db": 30.0, "reason": "", "seconds": 2.5})
    assert [(row["network"], row["status"], row["sqnr_db"]) for row in read(path)] == [
        ("a", "refused", None),
        ("b", "ok", 30.0),
    ]
    assert "seconds" not in path.read_text()


def test_rows_of_some_networks(tmp_path: Path) -> None:
    rows = [{**ROW, "network": name} for name in "abc"]
    assert [row["network"] for row in chosen(rows, ["a", "c"], ["dynamo"], ["t", "u"])] == ["a", "c"]
    assert chosen(rows, ["a"], ["torchscript"], ["t"]) == []


def test_the_page_in_the_docs_is_of_the_kept_rows() -> None:
    assert page(read(KEPT)) == (DOCS / "support.md").read_text(encoding="utf-8")
