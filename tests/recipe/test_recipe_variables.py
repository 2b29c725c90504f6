"""Variables: what a POSIX shell makes of the same references, and errors for what it would make silently."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.recipe.variables import VariableError, escape, expand

ENVIRON = {"DATA": "/data", "EMPTY": "", "N": "3", "TRICKY": "a${N}b$$"}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("${DATA}/x", "/data/x"),
        ("a${N}b${N}", "a3b3"),
        ("${NONE:-7}", "7"),
        ("${EMPTY:-7}", "7"),
        ("${DATA:-7}", "/data"),
        ("${NONE:-}", ""),
        ("[${EMPTY}]", "[]"),
        ("$${N}", "${N}"),
        ("5$ and $5", "5$ and $5"),
        ("$$$${N}", "$${N}"),
        ("${TRICKY}", "a${N}b$$"),
    ],
)
def test_expansion(raw: str, text: str) -> None:
    assert expand(raw, ENVIRON).text == text


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
@pytest.mark.parametrize(
    "raw", ["${DATA}/x", "a${N}b", "${NONE:-d}", "${EMPTY:-d}", "${N:-d}", "x${EMPTY}y", "${NONE:-}"]
)
def test_the_shell_agrees(raw: str) -> None:
    run = subprocess.run(["sh", "-uc", f'printf %s "{raw}"'], env=ENVIRON, capture_output=True, text=True, check=True)
    assert expand(raw, ENVIRON).text == run.stdout


def test_only_a_leading_value_from_the_environment_counts_for_paths() -> None:
    leading = {
        raw: expand(raw, ENVIRON).from_environment for raw in ("${DATA}/x", "a/${DATA}", "${NONE:-d}/x", "$$x")
    }
    assert leading == {"${DATA}/x": True, "a/${DATA}": False, "${NONE:-d}/x": False, "$$x": False}


def test_a_mapping_may_supply_any_variable() -> None:
    class Everything(dict[str, str]):
        def __missing__(self, key: str) -> str:
            return key.lower()

        def __contains__(self, key: object) -> bool:
            return True

    assert expand("${A}/${B:-x}", Everything()).text == "a/b"


def test_unset_names_the_variable_and_what_to_do() -> None:
    with pytest.raises(VariableError) as caught:
        expand("x${NNKIT_SHARED}/y", {})
    assert caught.value.reason == "the environment variable NNKIT_SHARED is not set"
    assert "export NNKIT_SHARED=" in caught.value.remedy


@pytest.mark.parametrize("raw", ["${", "${}", "${1X}", "${A B}", "$HOME/x", "${A-b}", "${A:-${B}}", "${A:+b}", "${A"])
def test_malformed_references(raw: str) -> None:
    with pytest.raises(VariableError, match="is no variable reference"):
        expand(raw, {"A": "1", "HOME": "/", "B": "2"})


@pytest.mark.parametrize("value", ["\udcff", "a\0b"])
def test_values_that_are_not_text(value: str) -> None:
    with pytest.raises(VariableError, match="is not valid text"):
        expand("${BAD}", {"BAD": value})


@settings(max_examples=200)
@given(st.text())
def test_escaped_text_expands_to_itself(text: str) -> None:
    assert expand(escape(text), {}).text == text
