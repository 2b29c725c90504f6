"""Text of others made visible: what a name or a program's output holds beside letters is written as an escape.

Names of networks, recipes, files and packages, and what programs print, may hold characters that a terminal obeys: it
would colour, erase or move what stands there (ESC and the other control characters), turn it round (marks of
direction), or begin a line that looks like one of ours (line breaks). All that nnkit writes for people passes here.
"""

from __future__ import annotations

import re
import unicodedata

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # control, format, half a pair, separators
_BREAK = re.compile(r"\n(?=  )")  # as errors are written: what follows is indented
_OURS = ("fix:", "more:")
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


def visible_reason(text: str) -> Visible:
    """A reason or a remedy, which may have indented lines.

    Other line breaks are escaped, and those before an indented line that poses as a remedy: ours is added apart.
    """
    if isinstance(text, Visible):
        return text
    first, *rest = _BREAK.split(text)
    made = visible(first)
    for line in rest:
        separator = "\\n" if line.lstrip().startswith(_OURS) else "\n"
        made = Visible(f"{made}{separator}{visible(line)}")
    return made


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
