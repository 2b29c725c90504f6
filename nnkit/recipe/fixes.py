"""Corrections of a recipe's text: misspelt words of which it is known what they were meant to be."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nnkit.errors import cannot_be_written
from nnkit.output_file import write_output
from nnkit.recipe.problems import Problem

_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+):(?P<column>\d+)")


@dataclass(frozen=True)
class Fix:
    """One word of a file replaced by another."""

    where: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.where}: '{self.before}' is now '{self.after}'"


def apply_fixes(problems: Sequence[Problem], folder: Path) -> list[Fix]:
    """Replace, in the files that they stand in, the words whose right spelling is known; what was replaced.

    Nothing else in a file changes: line ends and comments stay. folder: the recipe's. Files elsewhere, which a recipe
    of somebody else's may include, stay as they are. Raises UserFileError for a file that cannot be written, or that
    is reached by a link.
    """
    done: list[Fix] = []
    by_file: dict[str, list[tuple[int, int, Problem]]] = {}
    for problem in problems:
        place = _PLACE.fullmatch(problem.where)
        if place is not None and problem.answer:
            by_file.setdefault(place["file"], []).append((int(place["line"]), int(place["column"]), problem))
    for file, misspelt in by_file.items():
        path = Path(file)
        if not Path(os.path.abspath(path)).is_relative_to(os.path.abspath(folder)):
            continue
        try:
            lines = path.read_bytes().decode("utf-8").splitlines(keepends=True)
            mark = "\ufeff" if lines and lines[0].startswith("\ufeff") else ""
            for line, column, problem in sorted(misspelt, key=lambda each: each[:2], reverse=True):
                start = column - 1 + (len(mark) if line == 1 else 0)
                fixed = _replaced(lines[line - 1], start, problem.written, problem.answer)
                if fixed is not None:
                    lines[line - 1] = fixed
                    done.append(Fix(problem.where, problem.written, problem.answer))
            write_output(path, "".join(lines), "the corrected recipe", sent=[folder])
        except OSError as error:
            raise cannot_be_written(path, error, "the corrected recipe") from error
    return sorted(done, key=lambda fix: fix.where)


def _replaced(line: str, start: int, written: str, answer: str) -> str | None:
    """The line with the word at `start`, which may be quoted, replaced; None where it does not stand there."""
    for quote in ("", "'", '"'):
        word = f"{quote}{written}{quote}"
        if line.startswith(word, start):
            return line[:start] + f"{quote}{answer}{quote}" + line[start + len(word) :]
    return None
