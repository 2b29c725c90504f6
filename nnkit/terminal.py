"""Colour, where a person reads: on a terminal, unless NO_COLOR is set (https://no-color.org) or TERM is dumb."""

from __future__ import annotations

import os
from typing import Literal, TextIO, TypeAlias

Colour: TypeAlias = Literal["red", "green", "yellow"]
_CODES: dict[Colour, str] = {"red": "31", "green": "32", "yellow": "33"}


def in_colour(text: str, colour: Colour, stream: TextIO) -> str:
    """The text in bold and colour for a stream that shows it; otherwise as it is."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[1;{_CODES[colour]}m{text}\x1b[0m"
