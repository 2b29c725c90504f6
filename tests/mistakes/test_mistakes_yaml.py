"""YAML that says something else than it looks like."""

from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import Mistake, check_mistake

MISTAKES = (
    Mistake(
        "tab",
        "  path: net.onnx",
        "\tpath: net.onnx",
        "4:1",
        "a tab stands where indentation is expected",
        "indent with spaces",
        "  path: net.onnx",
    ),
    Mistake("no colon", "name: small", "name small", "3:1", "':'", "write `key: value`", "name: small"),
    Mistake("open list", "size: [40, 40]}", "size: [40, 40}", "7:55", "list", "[a, b, c]", "size: [40, 40]}"),
    Mistake(
        "quote",
        'images: "images/*.png"',
        'images: "images/*.png',
        "recipe.yaml",
        "a quote is not closed",
        "close the quote",
        'images: "images/*.png"',
    ),
    Mistake(
        "alias",
        "name: small",
        "name: *name",
        "2:7",
        "the alias has no anchor before it",
        "define it first",
        "name: &name small",
    ),
    Mistake(
        "variable",
        "name: small",
        "name: ${NAME_THAT_IS_NOT_SET}",
        "2:7",
        "the environment variable NAME_THAT_IS_NOT_SET is not set",
        "or give a default",
        "name: ${NAME_THAT_IS_NOT_SET:-small}",
    ),
    Mistake(
        "second document",
        "targets:",
        "---\ntargets:",
        "9:1",
        "a second YAML document begins here",
        "remove the `---`",
        "targets:",
    ),
    Mistake(
        "tag",
        "name: small",
        "name: !!python/name:os.system small",
        "2:7",
        "is not allowed here",
        "a recipe is plain data",
        "name: small",
    ),
    Mistake(
        "include",
        "name: small",
        "name: !include part.yaml",
        "2:7",
        "the file 'part.yaml' does not exist",
        "check the path",
        "name: small",
    ),
    Mistake(
        "indentation",
        "  path: net.onnx",
        "   path: net.onnx",
        "5:3",
        "indent",
        "same number of spaces",
        "  path: net.onnx",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_it_is_told_and_the_remedy_mends_it(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_mistake(mistake, tmp_path, monkeypatch, capsys)
