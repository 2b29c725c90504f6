"""Which files: globs to a list in an order that does not depend on the machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nnkit.errors import RecipeError
from nnkit.reading.matching_files import matching, mended_glob
from nnkit.reading.regular_file import is_file_or_broken_link

if TYPE_CHECKING:
    from nnkit.recipe.types import RecipePath  # with pydantic behind it, which processes that calibrate do without

T = TypeVar("T")


def list_images(
    globs: str | RecipePath | Iterable[str | RecipePath], base: Path, count: int | None = None, *, where: str = ""
) -> list[Path]:
    """The files that the globs match: each once, in natural order (`2.pgm` before `10.pgm`).

    Args:
        globs: paths or globs, relative to `base` unless a `RecipePath` (which knows its folder); `**` crosses
            folders. A name that exists is taken literally, also when it holds `[` or `*`.
        count: at most so many, spread evenly over the list, so that a folder sorted by class gives some of each.
        where: the place in the recipe, for messages.

    Raises:
        RecipeError: a glob matches no file, or `count` is below 1.
    """
    if count is not None and count < 1:
        raise RecipeError(f"count is {count}", where=where, remedy="count is the number of files to take, from 1")
    patterns = list(globs) if isinstance(globs, Iterable) and not isinstance(globs, str) else [globs]
    listed: dict[Path, None] = {}
    for pattern in patterns:
        matched = _matches(pattern, base, where) if isinstance(pattern, str) else pattern.matches()
        listed.update(dict.fromkeys(Path(os.path.normpath(path)) for path in matched))
    return spread(sorted(listed, key=natural_key), count)


def named(path: Path, base: Path | None) -> str:
    """As a recipe in the folder `base` would write it, so that what is said does not depend on where a project lies.

    The path itself without a base, or where it is on another drive. Bytes that are no UTF-8, which no report can
    hold, become escapes.
    """
    shown = path
    if base is not None:
        with suppress(ValueError):
            shown = Path(os.path.relpath(path, base))
    return os.fsencode(shown.as_posix()).decode("utf-8", "backslashreplace")


def natural_key(path: Path) -> tuple[tuple[tuple[bool, int, str], ...], str]:
    """Sort key by which numbers in names count as numbers and folders sort before what is in them."""
    parts = re.findall(r"[0-9]+|[^0-9]+", path.as_posix().replace("/", "\0"))
    key = tuple((not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts)
    return key, path.as_posix()


def spread(items: Sequence[T], count: int | None) -> list[T]:
    """`count` items at even distances in their order, the first one included; all where there are no more."""
    total = len(items)
    if count is None or count >= total:
        return list(items)
    return [items[index * total // count] for index in range(count)]


def _matches(pattern: str, base: Path, where: str) -> list[Path]:
    if (base / pattern).is_file():
        return [base / pattern]
    paths = [base / name for name in matching(pattern, base, where=where)]
    files = [path for path in paths if is_file_or_broken_link(path)]
    if not files:
        what = "matches folders only" if paths else "matches no file"
        raise RecipeError(f"'{pattern}' {what}", where=where, remedy=mended_glob(pattern, base))
    return files
