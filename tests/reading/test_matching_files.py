"""Globs that match nothing are answered with one that does, where the folder has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnkit.reading.matching_files import mended_glob


@pytest.mark.parametrize("pattern", ["images/*.jpg", "images", "images/", "images/cat*"])
def test_the_commonest_suffix_of_the_folder_is_named_and_matches(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "images").mkdir()
    for name in ("0.png", "1.png", "labels.csv", "README"):
        (tmp_path / "images" / name).touch()
    assert mended_glob(pattern, tmp_path).startswith("write images/*.png: 2 such files are there; ")
    assert len(list(tmp_path.glob("images/*.png"))) == 2


@pytest.mark.parametrize("pattern", ["none/*.png", "empty/*.png", "*/0.jpg", "images/7.png", "i*"])
def test_where_nothing_is_known_the_place_is_told(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/0.png").touch()
    (tmp_path / "empty").mkdir()
    assert mended_glob(pattern, tmp_path) == f"check the path; it was looked for at {tmp_path / pattern}"
