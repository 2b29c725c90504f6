"""Places in recipe files, and the one error that reports everything wrong with a recipe at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nnkit.errors import RecipeError
from nnkit.visible import Visible, visible, visible_item

KeyPath = tuple[str | int, ...]
"""The way to a value from the root of a recipe: mapping keys and list indices."""


@dataclass(frozen=True)
class Place:
    """Where a key or a value is written.

    Attributes:
        file: the file as the user would name it (relative names stay relative).
        line: counted from 1; 0 means that there is no line (a value from the command line).
        column: counted from 1, in characters.
        folder: absolute folder that relative paths written here are relative to.
    """

    file: str
    line: int
    column: int
    folder: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a recipe: the place (`file:line:column`), what is wrong, what would be right.

    written, answer: the word at the place and the one that it was meant to be, where that is known.
    """

    where: str
    reason: str
    remedy: str = ""
    written: str = ""
    answer: str = ""

    def __str__(self) -> str:
        remedy = f"\n    fix: {visible(self.remedy)}" if self.remedy else ""
        return visible_item(Visible(f"{visible(self.where)}: {visible(self.reason)}{remedy}"))


def in_order(placed: Iterable[tuple[Place, Problem]], file: str) -> list[Problem]:
    """Problems in the order of lines, those of the recipe `file` first, without repetitions."""

    def order(item: tuple[Place, Problem]) -> tuple[bool, str, int, int]:
        place = item[0]
        return place.file != file, place.file, place.line, place.column

    return list(dict.fromkeys(problem for _, problem in sorted(placed, key=order)))


MAX_SHOWN = 40
"""Problems in a message; an error's `problems` has them all."""


class InvalidRecipeError(RecipeError):
    """A recipe is wrong in one or several places; `problems` lists them in the order of the files."""

    code = "NK202"

    def __init__(self, problems: Sequence[Problem], *, file: str) -> None:
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            only = self.problems[0]
            super().__init__(only.reason, where=only.where, remedy=only.remedy)
            return
        lines = "".join(f"\n  {problem}" for problem in self.problems[:MAX_SHOWN])
        more = len(self.problems) - MAX_SHOWN
        rest = f"\n  ... and {more} more" if more > 0 else ""
        super().__init__(Visible(f"{len(self.problems)} problems in the recipe{lines}{rest}"), where=file)


def shown(text: str, limit: int = 60) -> str:
    """`text` on one line, printable, and cut to `limit` characters, for use in a message."""
    flat = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: limit + 1])
    return flat if len(text) <= limit else flat[: limit - 3] + "..."
