"""CC is a program alone; what it is not is said by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnkit.c.host_compiler import host_compiler, host_compiler_tool, needed_compiler, why_no_compiler
from nnkit.errors import ToolError


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one program on PATH, `mycc`."""
    path = tmp_path / "mycc"
    path.write_text("#!/bin/sh\necho mycc 1.0\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return path


@pytest.mark.parametrize("by", ["name", "path"])
def test_a_program_is_taken(compiler: Path, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler.name if by == "name" else str(compiler))
    assert needed_compiler() == str(compiler)
    assert why_no_compiler() is None


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ("mycc -O1", "CC is 'mycc -O1', and takes a program without flags (set CC=mycc)"),
        ("mycc\t-m32  -g", "takes a program without flags (set CC=mycc)"),
        ("other", "CC is 'other', which is no program on PATH"),
        ("other -O1", "CC is 'other -O1', which is no program on PATH"),
        ("./mycc", "CC is './mycc', which is no program on PATH or at an absolute path"),
        (" ", "CC is ' ', which is no program on PATH"),
    ],
)
def test_anything_else_is_refused_by_name(
    compiler: Path, chosen: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", chosen)
    monkeypatch.chdir(compiler.parent)
    assert host_compiler() is None
    assert reason in str(why_no_compiler())
    with pytest.raises(ToolError) as caught:
        needed_compiler()
    assert reason in caught.value.reason
    assert reason in host_compiler_tool("tests").install


def test_without_cc_the_reason_is_how_to_get_one(compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    assert why_no_compiler() == "no C compiler (install gcc or clang, or set CC)"
    assert host_compiler_tool("tests").install == "apt-get install gcc"
    os.rename(compiler, compiler.with_name("gcc"))
    assert why_no_compiler() is None


def test_a_compiler_that_is_given_goes_before_cc(compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "other")
    assert needed_compiler(compiler.name) == str(compiler)
    monkeypatch.setenv("CC", compiler.name)
    assert why_no_compiler("another") == "no C compiler: 'another' was not found"
    with pytest.raises(ToolError, match="'another' was not found"):
        needed_compiler("another")
