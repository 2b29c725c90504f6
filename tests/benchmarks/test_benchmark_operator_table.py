"""The table of operators: some cells are found anew, and the page in the docs has every operator."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from benchmarks.operator_table import CASES, model, taken

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"


@pytest.mark.parametrize(
    ("operator", "target", "word"),
    [("Relu", "gap8", "yes"), ("LRN", "gap8", ""), ("LRN", "nnie", "yes"), ("Softmax", "onnx_qdq", "yes")],
)
def test_cell(tmp_path: Path, operator: str, target: str, word: str) -> None:
    assert taken(operator, target, tmp_path) == word
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {operator} |"))
    head = next(line for line in PAGE.read_text().splitlines() if line.startswith("| operator |"))
    cells = [cell.strip() for cell in row.split("|")[2:-1]]
    names = [cell.strip(" `") for cell in head.split("|")[2:-1]]
    assert cells[names.index(target)] == word


def test_page_has_every_operator() -> None:
    listed = [line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert listed[1:] == sorted(CASES)


@pytest.mark.parametrize("operator", sorted(CASES))
def test_networks_are_valid(operator: str) -> None:
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model(operator), strict_mode=True), full_check=True)
