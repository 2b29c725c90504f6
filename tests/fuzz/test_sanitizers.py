"""The sanitizers see what they are there to see, and nothing in the C of a small network."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fuzz import sanitizers
from fuzz.networks import seeds

if shutil.which("gcc") is None:
    pytest.skip("no gcc", allow_module_level=True)


def test_one_network_under_one_sanitizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizers, "_networks", lambda folder: [("0", seeds(folder)[0])])
    monkeypatch.setattr(sanitizers, "TARGETS", {"ansi_c": ("ansi_c", "{}")})
    (artifact,) = sanitizers._artifacts(tmp_path)
    compiler, flags = sanitizers.SANITIZERS["gcc address, undefined"]
    row = sanitizers._row("gcc", compiler, flags, [artifact])
    assert (row["findings"], row["runs"]) == (0, 14)
    source = next(path for path in artifact[1].glob("*.c") if path.name != "example.c")
    source.write_text(
        source.read_text().replace("{\n", "{\n    static int hole[1]; volatile int at = 7; hole[at] = 1;\n", 1)
    )
    assert sanitizers._row("gcc", compiler, flags, [artifact])["findings"] >= 1


def test_a_compiler_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert sanitizers._missing("no-such-compiler", (), tmp_path) == "no no-such-compiler"
    assert sanitizers._missing("gcc", ("-fsanitize=nothing",), tmp_path)
