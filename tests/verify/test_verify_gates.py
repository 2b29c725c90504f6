"""Gates: which side of the limit passes, and what a report says."""

from __future__ import annotations

import json
import math

import pytest

from nnkit.verify.gates import check_gates
from nnkit.verify.metrics import Distance

MEASURED = Distance(cosine=0.99, sqnr_db=30.0, max_abs=0.5)


@pytest.mark.parametrize(
    ("name", "limit", "passed"),
    [
        ("cosine", 0.98, True),
        ("cosine", 0.99, True),
        ("cosine", 0.991, False),
        ("sqnr_db", 29.9, True),
        ("sqnr_db", 30.0, True),
        ("sqnr_db", 30.1, False),
        ("max_abs", 0.6, True),
        ("max_abs", 0.5, True),
        ("max_abs", 0.49, False),
    ],
)
def test_limits(name: str, limit: float, passed: bool) -> None:
    (result,) = check_gates({name: limit}, MEASURED)
    assert result.passed is passed
    assert result.as_json() == {
        "name": name,
        "limit": limit,
        "measured": getattr(MEASURED, name),
        "passed": passed,
    }


def test_every_gate_of_the_recipe_is_checked_in_its_order() -> None:
    results = check_gates({"max_abs": 0.1, "cosine": 0.9}, MEASURED)
    assert [(r.name, r.passed) for r in results] == [("max_abs", False), ("cosine", True)]
    assert check_gates({}, MEASURED) == ()


def test_equal_outputs_pass_any_sqnr() -> None:
    (result,) = check_gates({"sqnr_db": 400.0}, Distance(1.0, math.inf, 0.0))
    assert result.passed
    assert result.as_json()["measured"] is None


@pytest.mark.parametrize("name", ["cosine", "sqnr_db", "max_abs"])
def test_a_distance_that_is_no_number_passes_no_gate(name: str) -> None:
    (result,) = check_gates({name: 1.0}, Distance(math.nan, math.nan, math.nan))
    assert not result.passed
    json.dumps(result.as_json(), allow_nan=False)


def test_message_says_the_direction() -> None:
    texts = [str(result) for result in check_gates({"cosine": 0.999, "max_abs": 0.1}, MEASURED)]
    assert texts == [
        "cosine: 0.99 measured, at least 0.999 demanded",
        "max_abs: 0.5 measured, at most 0.1 demanded",
    ]
