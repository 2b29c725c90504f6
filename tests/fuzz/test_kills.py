"""Killed runs: the last good build stays, nothing runs on, the next run succeeds and nothing is left."""

from __future__ import annotations

import sys

import pytest

if sys.platform != "linux":
    pytest.skip("processes tell their variables on Linux", allow_module_level=True)

from fuzz import kills


def test_two_kills(capsys: pytest.CaptureFixture[str]) -> None:
    assert kills.main(["--count", "2", "--in-a-row", "2", "--target", "gap8", "--seed", "5"]) == 0, (
        capsys.readouterr().err
    )
