"""Gates: which side of the limit passes, and what a report says."""

from __future__ import annotations

import json
import math

import pytest

from nnkit.distance import Distance
from nnkit.verify.gates import GateResult, beyond_the_float_network, check_gates, float_fails_alone
from nnkit.verify.tasks.score import Metric, TaskScore

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


@pytest.mark.parametrize(
    ("measured", "limit", "text"),
    [
        (0.99899996, 0.999, "cosine: 0.99899996 measured, at least 0.999 demanded"),  # not 0.999, at least 0.999
        (0.123456789, 0.5, "cosine: 0.123457 measured, at least 0.5 demanded"),
        (0.99999979, 0.9, "cosine: 0.9999998 measured, at least 0.9 demanded"),  # and not 1
        (0.99, 0.9999999, "cosine: 0.99 measured, at least 0.9999999 demanded"),
        (math.nan, 0.9, "cosine: nan measured, at least 0.9 demanded"),
    ],
)
def test_numbers_show_on_which_side_of_the_limit_they_lie(measured: float, limit: float, text: str) -> None:
    (result,) = check_gates({"cosine": limit}, Distance(measured, 30.0, 0.5))
    assert str(result) == text


def recall(program: float, floats: float) -> TaskScore:
    return TaskScore("verification", (Metric("recall", program, floats), Metric("changed_decisions", 0.01)), {})


def test_a_metric_that_the_float_network_has_too_stands_beside_its_figure() -> None:
    results = check_gates({"recall": 0.9, "drop": 0.05, "cosine": 0.9}, MEASURED, recall(0.58, 0.6))
    assert [str(result) for result in results] == [
        "recall: 0.58 (float 0.6) measured, at least 0.9 demanded",
        "drop: 0.02 measured, at most 0.05 demanded",
        "cosine: 0.99 measured, at least 0.9 demanded",
    ]
    assert [result.as_json().get("float") for result in results] == [0.6, None, None]


def test_the_rounding_of_a_difference_fails_no_gate() -> None:
    assert 0.86 - 0.84 > 0.02  # as float64 has it
    (result,) = check_gates({"drop": 0.02}, MEASURED, recall(0.84, 0.86))
    assert result.passed
    assert str(result) == "drop: 0.02 measured, at most 0.02 demanded"


@pytest.mark.parametrize(("floats", "beyond"), [(0.6, ("recall",)), (0.95, ())])
def test_a_gate_that_the_float_network_fails_too_is_told_from_one_that_quantisation_fails(
    floats: float, beyond: tuple[str, ...]
) -> None:
    results = check_gates({"recall": 0.9, "cosine": 0.999}, MEASURED, recall(0.58, floats))
    assert tuple(gate.name for gate in beyond_the_float_network(results)) == beyond


def test_gates_come_back_from_a_report() -> None:
    found = Distance(0.99, math.inf, math.nan)
    results = check_gates({"cosine": 0.999, "sqnr_db": 30, "max_abs": 1, "recall": 0.5}, found, recall(0.58, 0.6))
    again = [GateResult.from_json(json.loads(json.dumps(result.as_json()))) for result in results]
    assert [str(gate) for gate in again] == [str(gate) for gate in results]
    assert [gate.passed for gate in again] == [False, True, False, True]


def test_gates_that_the_float_network_fails_are_told_apart() -> None:
    low = GateResult("top1_accuracy", 0.95, 0.9, passed=False, float_value=0.914)
    lossy = GateResult("cosine", 0.99, 0.9, passed=False)
    kept = GateResult("sqnr_db", 20.0, 30.0, passed=True)
    assert float_fails_alone([low, kept]) == "the float network itself has top1_accuracy 0.914, below 0.95"
    assert float_fails_alone([low, lossy]) == ""
    assert float_fails_alone([kept]) == ""
