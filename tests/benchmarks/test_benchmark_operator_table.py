"""The table of operators: cells against what the targets are known to do, and the page in the docs has every one."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import yaml

from benchmarks.operator_table import COLUMNS
from nnkit.target import load_target
from nnkit.target.operators import CASES, network, taken

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"


@pytest.mark.parametrize(
    ("operator", "column", "word"),
    [
        ("Relu", "gap8", "yes"),
        ("Sign", "tpu", ""),
        ("LRN", "nnie", "yes"),
        ("Softmax", "onnx_qdq", "yes"),
        ("LRN", "onnx_qdq", "float"),
        ("LRN", "ansi_c: integers", "yes"),
        ("LSTM", "ansi_c: integers", "yes"),
    ],
)
def test_cell(operator: str, column: str, word: str) -> None:
    target, written = COLUMNS[column]
    plugin = load_target(target)
    found = taken(operator, plugin, plugin.options(**yaml.safe_load(written)))
    assert found.on == word
    assert bool(found.reason) == (word == "")
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {operator} |"))
    head = next(line for line in PAGE.read_text().splitlines() if line.startswith("| operator |"))
    cells = [cell.strip() for cell in row.split("|")[2:-1]]
    names = [cell.strip(" `") for cell in head.split("|")[2:-1]]
    assert cells[names.index(column)] == word


def test_page_has_every_operator() -> None:
    listed = [line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert listed[1:] == sorted(CASES)


@pytest.mark.parametrize("operator", sorted(CASES))
def test_networks_are_valid(operator: str) -> None:
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(network(operator), strict_mode=True), full_check=True)
