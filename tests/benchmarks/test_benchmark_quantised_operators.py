"""The page of quantised operators is what ONNX Runtime and the simulator give now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.quantised_operators import CASES, FORMS, Case, measured

PAGE = Path(__file__).resolve().parents[2] / "docs/quantised_operators.md"


def rows() -> dict[str, list[str]]:
    lines = re.findall(r"^\| (.*?) \| (.*?) \| (.*?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: [first.strip(), second.strip()] for name, first, second in lines[1:]}


def test_the_page_has_every_operator() -> None:
    assert list(rows()) == [case.name for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_row_is_measured(case: Case, tmp_path: Path) -> None:
    """At most a unit, and exact where the page says so; refusals and what stays in float too."""
    for form, word in zip(FORMS, rows()[case.name], strict=True):
        each = measured(case, form, tmp_path)
        assert each.word == word, f"{form}: {each}"
        assert each.largest <= 1
