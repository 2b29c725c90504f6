"""A small manifest and a small package."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnkit.package import Manifest, write_archive

FILES = {"report.json": b"{}\n", "artifact/weights.bin": bytes(range(40)), "artifact/network.c": b"int x;\n"}


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder of the test's own."""
    monkeypatch.setenv("NNKIT_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def manifest() -> Manifest:
    return Manifest(
        name="gap8_reid",
        version="1.2.0",
        target="gap8",
        status="ok",
        nnkit="0.1.0",
        recipe={"nnkit": 1, "name": "gap8_reid"},
        tools={"numpy": "2.0"},
        memory={"l2": {"peak_bytes": 7}},
        accuracy={"cosine": 0.99995},
        inputs=[{"name": "image", "shape": [1, 1, 4, 4], "format": "s16.0"}],
        outputs=[{"name": "face", "shape": [1, 2], "format": "s16.10"}],
    )


@pytest.fixture
def package(tmp_path: Path, manifest: Manifest) -> Path:
    return write_archive(FILES, manifest, tmp_path / manifest.file_name)


@pytest.fixture
def files() -> dict[str, bytes]:
    return dict(FILES)
