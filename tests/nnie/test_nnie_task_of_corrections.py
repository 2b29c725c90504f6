"""The line that says what corrected weights do to the recipe's task."""

from __future__ import annotations

from typing import Any

import pytest

from nnkit_nnie.task_of_corrections import task_of_corrections


def row(choice: str, layers: list[str], **task: float | None) -> dict[str, Any]:
    metrics = [{"name": name, "program": value, "float": None} for name, value in task.items()]
    return {"choice": choice, "layers": layers, "images": 36, "task": metrics}


OTHER = row("all", ["a", "b"], recall=0.9)


@pytest.mark.parametrize(("without", "with_them", "worse"), [(0.5, 0.6, False), (0.5, 0.5, False), (0.6, 0.5, True)])
def test_both_are_told_and_a_worse_one_with_what_to_write(without: float, with_them: float, worse: bool) -> None:
    rows = [OTHER, row("not_corrected", ["a"], recall=without), row("as_built", ["a"], recall=with_them)]
    (line,) = task_of_corrections(rows, frozenset({"a"}))
    assert f"recall {without:.4f} without, {with_them:.4f} with, on 36 images" in line
    assert ("corrections: []" in line) == worse


def test_metrics_of_which_less_is_better_and_such_that_could_not_be_measured_are_left_out() -> None:
    rows = [
        row("no_hp", [], changed_decisions=0.1, mean_average_precision=None),
        row("as_built", [], changed_decisions=0.2, mean_average_precision=0.5),
    ]
    assert task_of_corrections(rows, frozenset()) == []


def test_nothing_is_said_where_nothing_is_corrected_or_there_is_no_task() -> None:
    assert task_of_corrections([OTHER, row("as_built", ["a"], recall=0.5)], frozenset({"a"})) == []
    bare: list[dict[str, Any]] = [{"choice": name, "layers": []} for name in ("no_hp", "as_built")]
    assert task_of_corrections(bare, frozenset()) == []
