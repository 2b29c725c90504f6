"""Values of the wrong kind, and outside their bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import Mistake, check_mistake

MISTAKES = (
    Mistake(
        "word for number",
        "cosine: 0.99",
        "cosine: high",
        "11:26",
        "'cosine' must be a number",
        "0.999",
        "cosine: 0.999",
    ),
    Mistake("too large", "cosine: 0.99", "cosine: 99", "11:26", "99", "1", "cosine: 1"),
    Mistake(
        "count of none",
        'images: "images/*.png"',
        'images: "images/*.png", count: 0',
        "8:52",
        "0",
        "1",
        'images: "images/*.png", count: 1',
    ),
    Mistake(
        "broken count",
        'images: "images/*.png"',
        'images: "images/*.png", count: 2.5',
        "8:52",
        "must be a whole number",
        "whole number",
        'images: "images/*.png", count: 2',
    ),
    Mistake(
        "name of a folder",
        "name: small",
        "name: my/net",
        "2:7",
        "cannot name a folder",
        "use up to 64 letters",
        "name: my_net",
    ),
    Mistake(
        "no such choice",
        "gap8: {}",
        "gap8: {precision: int7}",
        "10:21",
        "must be int16 or int8",
        "did you mean",
        "gap8: {precision: int8}",
    ),
    Mistake(
        "yes",
        "color: gray",
        "color: gray, flip: yes",
        "7:39",
        "must be true or false",
        "true",
        "color: gray, flip: true",
    ),
    Mistake(
        "version",
        "version: 1.2.3",
        "version: 1.2",
        "12:20",
        "'version' must be text",
        "version: 1.0.0",
        "version: 1.2.0",
    ),
    Mistake(
        "unit",
        "gap8: {}",
        "gap8: {memory: {l2: 512KB}}",
        "10:23",
        "the unit 'KB' is not used here",
        "write 512KiB",
        "gap8: {memory: {l2: 512KiB}}",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_it_is_told_and_the_remedy_mends_it(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_mistake(mistake, tmp_path, monkeypatch, capsys)
