"""The map of the product: every file that it names is there, and holds what the map says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/how_it_works.md").read_text(encoding="utf-8")


def wishes() -> list[tuple[str, list[str], str]]:
    """What is wanted, the files that the map names, and what to look for in one of them."""
    section = PAGE.partition("## Where what is\n")[2].partition("\n## ")[0]
    rows = [row.strip("| ").split(" | ") for row in section.splitlines() if row.startswith("|")][2:]
    return [(row[0], re.findall(r"`([\w/]+\.\w+)`", row[1]), row[2].strip("`")) for row in rows]


def test_the_map_is_read() -> None:
    assert len(wishes()) > 10
    assert all(files and word for _, files, word in wishes())


@pytest.mark.parametrize(("wish", "files", "word"), wishes(), ids=[wish for wish, _, _ in wishes()])
def test_what_is_wanted_is_there(wish: str, files: list[str], word: str) -> None:
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in files]
    assert any(word in text for text in texts)
