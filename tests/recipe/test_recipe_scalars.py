"""The table of YAML 1.2.2, section 10.3.2 (core schema), and its example 10.9, against our reading."""

from __future__ import annotations

import math

import pytest

from nnkit.recipe.scalars import resolve, tag_of, value_of


@pytest.mark.parametrize("text", ["null", "Null", "NULL", "~", ""])
def test_null(text: str) -> None:
    assert resolve(text) is None


@pytest.mark.parametrize(("text", "value"), [("true", True), ("True", True), ("TRUE", True), ("False", False)])
def test_truth(text: str, value: bool) -> None:
    assert resolve(text) is value


@pytest.mark.parametrize(
    "text", ["yes", "no", "on", "off", "Yes", "NO", "y", "n", "tRUE", "nULL", "1:30", "0b101", "1_000", "2001-12-14"]
)
def test_what_yaml_1_1_would_convert_stays_text(text: str) -> None:
    assert resolve(text) == text


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("0o7", 7), ("0x3A", 58), ("-19", -19), ("+12", 12), ("010", 10), ("0o14", 12)]
)
def test_whole_numbers(text: str, value: int) -> None:
    result = resolve(text)
    assert result == value
    assert type(result) is int


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.", 0.0), ("-0.0", -0.0), (".5", 0.5), ("+12e03", 12000.0), ("-2E+05", -200000.0), ("1e-3", 0.001)],
)
def test_numbers(text: str, value: float) -> None:
    result = resolve(text)
    assert result == value
    assert type(result) is float


def test_infinities_and_nan() -> None:
    assert [resolve(text) for text in (".inf", "-.Inf", "+.INF")] == [math.inf, -math.inf, math.inf]
    assert math.isnan(float(resolve(".NAN")))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [".", "-", "e3", "+", "1e", "1.0.0", "0x", "0o8", "--1", "0xG", ".e3", "1 "])
def test_near_numbers_are_text(text: str) -> None:
    assert tag_of(text) == "str"


@pytest.mark.parametrize("text", ["1e999", "-1e999", "9" * 5000, "1" + "0" * 399 + ".0"])
def test_numbers_beyond_a_double_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too l"):
        value_of(text, "float")
    assert resolve(text) == text or isinstance(resolve(text), int)


def test_explicit_tags() -> None:
    assert value_of("3", "float") == 3.0
    assert value_of("0x10", "float") == 16.0
    assert value_of("3", "str") == "3"
    with pytest.raises(ValueError, match="not a value of type int"):
        value_of("3.0", "int")
