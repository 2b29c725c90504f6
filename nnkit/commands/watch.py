"""`--watch`: a command again whenever the recipe, or a file that it names, has changed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nnkit.errors import NnkitError
from nnkit.failures import write_error
from nnkit.terminal import flush, note_line

_LOOK_SECONDS = 0.3

Marks = dict[str, tuple[int, int]]


def watch(recipe: Path, action: Callable[[], None]) -> None:
    """Run `action` now and after every change, until Ctrl-C; its errors are told and waited behind."""
    while True:
        files = _files(recipe)
        before = _marks(files)
        try:
            action()
            flush(sys.stdout)
        except NnkitError as error:
            flush(sys.stdout)
            write_error(str(error), error.code)
        files = _files(recipe)
        note_line(f"watching {len(files)} {'file' if len(files) == 1 else 'files'}; Ctrl-C ends")
        flush(sys.stderr)
        _wait_for_a_change(files, before)


def _wait_for_a_change(files: Sequence[Path], before: Marks) -> None:
    """Until the files differ from `before`, and no longer change: a program that saves a file empties it first."""
    last, now = before, _marks(files)
    while not now or now == before or now != last:
        time.sleep(_LOOK_SECONDS)
        last, now = now, _marks(files)


def _files(recipe: Path) -> Sequence[Path]:
    """The recipe, its fragments, the model and its weights, as far as the recipe can be read."""
    from nnkit.api.preparing import load

    try:
        loaded = load(recipe)
    except NnkitError:
        return [recipe]
    section = loaded.model
    named = [section.path.file, *([section.weights.file] if section.weights is not None else [])]
    return [recipe, *loaded.sources[1:], *named]


def _marks(files: Sequence[Path]) -> Marks:
    """Time of the last change and size of each file that is there."""
    marks: Marks = {}
    for path in files:
        try:
            status = path.stat()
        except OSError:
            continue
        marks[str(path)] = (status.st_mtime_ns, status.st_size)
    return marks
