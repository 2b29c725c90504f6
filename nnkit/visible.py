"""Text of others made visible: what a name or a program's output holds beside letters is written as an escape.

Names of networks, recipes, files and packages, and what programs print, may hold characters that a terminal obeys: it
would colour, erase or move what stands there (ESC and the other control characters), turn it round (marks of
direction), or begin a line that looks like one of ours (line breaks). All that nnkit writes for people passes here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # control, format, half a pair, separators
_OURS = ("error:", "fix:", "more:", "warning:")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")


class Visible(str):
    """Text whose lines have been made visible, each by itself; its line breaks are ours."""

    __slots__ = ()


def visible(text: str) -> Visible:
    """The text on one line, with escapes as in Python: `\\x1b` for ESC, `\\n` for a line break, `\\u202e`."""
    if isinstance(text, Visible):
        return text
    if text.isprintable():
        return Visible(text)
    return Visible("".join(_escape(each) if _is_obeyed(each) else each for each in text))


def visible_lines(text: str) -> Visible:
    """A text of ours in several lines, each made visible."""
    return text if isinstance(text, Visible) else Visible("\n".join(visible(line) for line in text.split("\n")))


def joined(*parts: str) -> Visible:
    """Parts of one text, each made visible by itself: lines of those that are stay lines, which `f"{}"` forgets."""
    return Visible("".join(map(visible, parts)))


def with_lines(text: str, lines: Iterable[str], *, indent: str = "  ") -> Visible:
    """A reason or a remedy of ours with indented lines below it, each made visible by itself."""
    return Visible(f"\n{indent}".join((visible(text), *map(visible_item, lines))))


def visible_item(text: str) -> Visible:
    """A text that begins an indented line: with a bar before it where it would read as a line of ours."""
    shown = visible(text)
    return Visible(f"| {shown}") if shown.lstrip().startswith(_OURS) else shown


def visible_json(text: str) -> str:
    """JSON that stays the same data: what a terminal obeys stands only in its strings, and becomes `\\u` there."""
    return _BEYOND_ASCII.sub(lambda found: _json_escape(found[0]) if _is_obeyed(found[0]) else found[0], text)


def _is_obeyed(character: str) -> bool:
    return unicodedata.category(character) in _OBEYED


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
