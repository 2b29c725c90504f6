"""docs/rewrites.md is what the rules say."""

from __future__ import annotations

from pathlib import Path

from nnkit.rewrite.documentation import rewrites_markdown

PAGE = Path(__file__).parents[2] / "docs" / "rewrites.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == rewrites_markdown(), "run: python -m nnkit.rewrite.documentation > docs/rewrites.md"
