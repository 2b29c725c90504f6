"""What people read: the one place that writes to standard output and standard error.

Whatever is written passes `nnkit.visible`. Colour is for terminals, unless NO_COLOR is set (https://no-color.org) or
TERM is dumb. An output that nobody reads any more, or that has no room, is no fault of the work that was done.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TextIO, TypeAlias

from nnkit.errors import UserFileError
from nnkit.visible import visible, visible_json, visible_lines

Colour: TypeAlias = Literal["red", "green", "yellow"]
_CODES: dict[Colour, str] = {"red": "31", "green": "32", "yellow": "33"}


@dataclass(frozen=True)
class Coloured:
    """A part of a line in bold and colour."""

    text: str
    colour: Colour


def in_colour(text: str, colour: Colour, stream: TextIO | None) -> str:
    """A text of ours in bold and colour for a stream that shows it; otherwise as it is."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[1;{_CODES[colour]}m{text}\x1b[0m"


def print_line(*parts: str | Coloured) -> None:
    """One line of a result on standard output."""
    write_line(sys.stdout, *parts)


def note_line(*parts: str | Coloured) -> None:
    """One line for the user on standard error."""
    write_line(sys.stderr, *parts)


def print_lines(text: str) -> None:
    """A text of ours in several lines on standard output."""
    write_lines(sys.stdout, text)


def print_help(text: str) -> None:
    """A page about commands, with colours of ours and nothing of others, on standard output."""
    _write(sys.stdout, text + "\n")


def print_json_text(text: str) -> None:
    """JSON, which stays the same data, on standard output."""
    _write(sys.stdout, visible_json(text) + "\n")


def write_line(stream: TextIO | None, *parts: str | Coloured) -> None:
    """One line. stream: None is an output that was closed before the start."""
    if stream is None:
        return
    text = "".join(
        in_colour(visible(part.text), part.colour, stream) if isinstance(part, Coloured) else visible(part)
        for part in parts
    )
    _write(stream, text + "\n")


def write_lines(stream: TextIO | None, text: str) -> None:
    """A text of ours in several lines, each made visible."""
    _write(stream, visible_lines(text) + "\n")


def flush(stream: TextIO | None) -> None:
    """Hand on what was written, as after a line that somebody waits for. Raises as `print_line`."""
    _write(stream, "", now=True)


def _write(stream: TextIO | None, text: str, *, now: bool = False) -> None:
    """Write text. A reader that has gone is no error, and the exit code stays that of the command.

    Raises UserFileError where standard output cannot be written for another reason: a result would be lost unseen.
    """
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        if now:
            stream.flush()
    except OSError as error:
        _to_nowhere(stream)
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            lost = UserFileError(
                f"the result cannot be written: {error.strerror or error}",
                where="standard output",
                remedy="send it to a place with room, and run the same command again: what it made is kept",
            )
            lost.code = "NK223"
            raise lost from error


def _to_nowhere(stream: TextIO) -> None:
    """From here on the stream's output is dropped, also what waits in its buffer."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def open_closed_outputs() -> None:
    """Give the standard streams that were closed before the start a place: the next file that is opened would get
    their number, and what programs print would go into it."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
