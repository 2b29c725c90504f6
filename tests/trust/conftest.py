"""A configuration folder of the test's own, and no CI."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    monkeypatch.setenv("NNKIT_CONFIG", str(folder))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("NNKIT_TIME_FACTOR", raising=False)
    return folder
