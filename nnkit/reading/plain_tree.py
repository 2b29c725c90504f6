"""Whether a folder that somebody may have sent holds files and folders alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from nnkit.errors import UserFileError

_MOST_ENTRIES = 100_000  # a build has hundreds


def check_plain_tree(folder: Path, what: str) -> None:
    """Nothing where all below `folder` is files and folders. The folder itself may be reached by a link.

    A link could lead a file of this machine into a page or a package, or a program out of the folder; opening a pipe
    waits for its other end.

    what: the folder in messages, e.g. `a build`. Raises UserFileError for the first link, pipe or device by name.
    """
    for number, entry in enumerate(_entries(folder, what), start=1):
        if entry.is_symlink():
            raise UserFileError(
                f"is a link to {os.readlink(entry)}; {what} holds files alone, and may come from somebody else",
                where=entry.path,
                remedy="put the file itself in its place, or remove the link",
            )
        if not (entry.is_file() or entry.is_dir()):
            raise UserFileError(
                f"is a pipe or a device; {what} holds files alone", where=entry.path, remedy="remove it"
            )
        if number > _MOST_ENTRIES:
            raise UserFileError(
                f"holds more than {_MOST_ENTRIES:,} files, which {what} never does",
                where=str(folder),
                remedy="name the folder itself, and keep other files elsewhere",
            )


def _entries(folder: Path, what: str) -> Iterator[os.DirEntry[str]]:
    waiting = [str(folder)]
    while waiting:
        name = waiting.pop()
        try:
            with os.scandir(name) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError as error:
            raise UserFileError(
                f"a folder of {what} cannot be read: {error.strerror or error}",
                where=name,
                remedy="check its permissions",
            ) from error
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
