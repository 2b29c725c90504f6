"""What a run suggests where a gate fails: what the target offers and the recipe has not asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nnkit.commands.not_tried import not_tried
from nnkit.report.untried import KEPT_FORMATS

BOTH = (
    "calibration: {corrections: [...]} with a, b; tags: {hp: auto}, which puts the layers that need it into 16 bits"
)


def _build(
    asked: tuple[str, ...] | None, hp: object, precision: str, *, mixes: bool = True, corrects: bool = False
) -> Any:
    recipe = SimpleNamespace(
        calibration_for=lambda key: SimpleNamespace(corrections=asked),
        tags_for=lambda key: SimpleNamespace(hp=hp, cpu=()),
    )
    target = SimpleNamespace(
        corrections=("a", "b"),
        corrections_with=lambda options: ("a", "b"),
        own_corrections=lambda options: ("a", "b") if corrects else (),
        gains_from_sixteen_bits=lambda options: mixes and options.precision == "int8",
    )
    return SimpleNamespace(target=target, recipe=recipe, key="t", options=SimpleNamespace(precision=precision))


def _report(*gates: tuple[float, float | None]) -> dict[str, Any]:
    """gates: measured, and what the float network has; the limit is 0.9."""
    entries = [
        {"name": "top1_accuracy", "limit": 0.9, "measured": measured, "passed": measured >= 0.9, "float": of_float}
        for measured, of_float in gates
    ]
    return {"verify": {"gates": entries}, "quantization_notes": []}


@pytest.mark.parametrize(
    ("asked", "hp", "precision", "expected"),
    [
        (None, (), "int8", BOTH),
        (("b",), "auto", "int8", "calibration: {corrections: [...]} with a"),
        (("a", "b"), ("x",), "int8", BOTH.partition("; ")[2]),
        (("a", "b"), (), "int16", None),
        (("a", "b"), "auto", "int8", None),
    ],
)
def test_what_is_left_to_try(asked: tuple[str, ...] | None, hp: object, precision: str, expected: str | None) -> None:
    assert not_tried(_build(asked, hp, precision), _report((0.5, 0.95))) == expected


def test_a_network_that_is_quantised_already_has_no_corrections() -> None:
    kept = _report((0.5, 0.95)) | {"quantization_notes": [KEPT_FORMATS]}
    assert (not_tried(_build(None, (), "int8"), kept) or "").startswith("the float network")


def test_what_a_target_corrects_by_itself_is_not_left_to_try() -> None:
    """Unless its layers were searched, which is done on the network as it is."""
    found = [not_tried(_build(None, hp, "int8", corrects=True), _report((0.5, 0.95))) for hp in ((), "auto")]
    assert found == [BOTH.partition("; ")[2], "calibration: {corrections: [...]} with a, b"]


def test_a_target_of_one_precision_mixes_none() -> None:
    assert not_tried(_build(("a", "b"), (), "int8", mixes=False), _report((0.5, None))) is None


def test_nothing_helps_where_gates_hold_or_the_float_network_fails_them() -> None:
    build = _build(None, (), "int8")
    assert not_tried(build, _report((0.95, 0.95))) is None
    assert not_tried(build, _report((0.5, 0.8))) is None
    assert not_tried(build, _report((0.5, 0.8), (0.5, 0.95))) == BOTH
