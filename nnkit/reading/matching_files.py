"""Globs: what they match, within bounds, and what to write in the place of one that matches no file."""

from __future__ import annotations

import fnmatch
import glob
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NoReturn

from nnkit.errors import RecipeError

MOST_ENTRIES = 2_000_000
"""Files and folders that a glob may look at: more than the largest public data set of images has in its folders."""

MOST_SECONDS = 120.0
"""How long a glob may look."""

MOST_LETTERS = 200_000_000
"""Letters of all names that a glob may match: a link that leads back up gives each file a hundred long names."""

_MOST_LOOKED_AT = 10_000  # names in a folder


def matching(pattern: str, folder: Path, *, where: str = "") -> list[str]:
    """What a glob relative to `folder` matches, each once, sorted.

    As `glob.glob` does it: `**` crosses folders, also those that links lead to, and `*` takes no name that begins
    with a dot.

    where: the place in the recipe, for messages.
    Raises RecipeError where it would look at more than MOST_ENTRIES files and folders, or longer than MOST_SECONDS,
    or matches names of more than MOST_LETTERS together.
    """
    root = "/" if pattern.startswith("/") else ""
    parts = [part for part in pattern.split("/") if part]
    if not parts:
        return []
    search = _Search(pattern, folder, where)
    names = set(search.counted(search.below(root, _without_repetition(parts))))
    return sorted(name for name in names if not pattern.endswith("/") or (folder / name).is_dir())


@dataclass
class _Search:
    pattern: str
    folder: Path
    where: str
    looked_at: int = 0
    letters: int = 0
    began: float = field(default_factory=time.monotonic)
    last: tuple[str | None, list[tuple[str, bool]]] = (None, [])

    def counted(self, names: Iterator[str]) -> Iterator[str]:
        """The names, as long as they are not too many letters together."""
        for name in names:
            self.letters += len(name)
            if self.letters > MOST_LETTERS:
                self._refuse(f"matches names of more than {MOST_LETTERS:,} letters")
            yield name

    def below(self, at: str, parts: Sequence[str]) -> Iterator[str]:
        """Names that match `parts` below the folder `at`, which ends with a slash or is empty."""
        part, rest = parts[0], parts[1:]
        if part == "**":
            waiting = [at]
            while waiting:
                folder = waiting.pop()
                seen = [each for each in self.listed(folder) if not each[0].startswith(".")]
                if rest:
                    yield from self.below(folder, rest)
                else:
                    yield from (folder + name for name, _ in seen)
                waiting += [f"{folder}{name}/" for name, is_folder in seen if is_folder]
        elif glob.has_magic(part):
            for name, is_folder in self.listed(at):
                if fnmatch.fnmatch(name, part) and (part.startswith(".") or not name.startswith(".")):
                    if not rest:
                        yield at + name
                    elif is_folder:
                        yield from self.below(f"{at}{name}/", rest)
        elif rest:
            yield from self.below(f"{at}{part}/", rest)
        elif os.path.lexists(self.folder / at / part):
            yield at + part

    def listed(self, at: str) -> list[tuple[str, bool]]:
        """The names in a folder, and whether each is one itself; none where it cannot be read."""
        if self.last[0] == at:  # `**` and what follows it list the same folder
            return self.last[1]
        names: list[tuple[str, bool]] = []
        try:
            with os.scandir(self.folder / at) as entries:
                for entry in entries:
                    self.looked_at += 1
                    self._check()
                    names.append((entry.name, entry.is_dir()))
        except OSError:
            pass
        self.last = at, names
        return names

    def _check(self) -> None:
        if self.looked_at > MOST_ENTRIES:
            self._refuse(f"looks at more than {MOST_ENTRIES:,} files and folders")
        if self.looked_at % 1024 == 0 and time.monotonic() - self.began > MOST_SECONDS:
            self._refuse(f"looks at files for more than {MOST_SECONDS:.0f} s ({self.looked_at:,} so far)")

    def _refuse(self, why: str) -> NoReturn:
        raise RecipeError(
            f"'{self.pattern}' {why}",
            where=self.where,
            remedy="name the folder that the files lie in, as in pictures/*.png, instead of one far above with **",
        )


def _without_repetition(parts: Sequence[str]) -> list[str]:
    """`**/**` is `**`: each would look through all folders again."""
    return [part for index, part in enumerate(parts) if part != "**" or parts[index - 1 : index] != ["**"]]


def mended_glob(pattern: str, folder: Path) -> str:
    """The remedy for a glob, relative to `folder`, that matches no file.

    A folder in the place of its files, and a suffix that none of them has, are answered with a glob that matches.
    """
    whole = folder / pattern
    looked_for = f"check the path; it was looked for at {whole}"
    head, tail = (pattern.rstrip("/"), "") if whole.is_dir() else os.path.split(pattern)
    matches_folders = not whole.is_dir() and any(glob.iglob(pattern, root_dir=folder))
    if matches_folders or glob.has_magic(head) or not (whole.is_dir() or glob.has_magic(tail)):
        return looked_for
    try:
        with os.scandir(folder / head) as entries:
            suffixes = Counter(Path(each.name).suffix for each in islice(entries, _MOST_LOOKED_AT) if each.is_file())
    except OSError:
        return looked_for
    suffixes.pop("", None)
    if not suffixes:
        return looked_for
    ((suffix, count),) = suffixes.most_common(1)
    what = "a file like it is" if count == 1 else f"{count} such files are"
    return f"write {os.path.join(head, '*')}{suffix}: {what} there; it was looked for at {whole}"
