"""The one way a file is written into a folder that somebody may have sent.

A build folder, or a project with its recipe, may hold links that lead elsewhere. None of them is followed: a folder
below one that was sent must be a folder itself, and the file's own name is given to a new file, so that what a link,
or a second name of the same file (a hard link), leads to stays as it is.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from nnkit.errors import UserFileError, cannot_be_written
from nnkit.owned_folder import owned_folder

_NAME_LENGTH = 40  # of a file's name, in that of the folder where it is written


@contextmanager
def new_file(path: Path, what: str = "", *, sent: Sequence[Path] = ()) -> Iterator[BinaryIO]:
    """A file open for writing that takes the place of `path` when the block ends; after an error nothing has changed.

    Args:
        what: the file in messages, e.g. `the table`.
        sent: folders that may have come from somebody else: no link below one of them is followed, `path` may lie
            elsewhere. A folder that the user names is followed up to there, as by any command.

    Raises UserFileError where `path` is a link, a folder, a device or a pipe, or cannot be written.
    """
    path = _without_dots(path)
    try:
        make_folder(path.parent, sent=sent)
        mode = _mode_of_file(path)
        with owned_folder(path.parent, f".{path.name[:_NAME_LENGTH]}.new-") as folder:
            made = folder / "file"
            with made.open("xb") as stream:
                yield stream
            if mode is not None:
                made.chmod(mode)
            made.replace(path)
    except OSError as error:
        raise cannot_be_written(path, error, what) from error


def write_output(path: Path, content: bytes | str, what: str = "", *, sent: Sequence[Path] = ()) -> None:
    """Write a file as `new_file`; text is written as UTF-8."""
    with new_file(path, what, sent=sent) as stream:
        stream.write(content.encode("utf-8") if isinstance(content, str) else content)


def make_folder(folder: Path, *, sent: Sequence[Path] = ()) -> None:
    """Make a folder and those above it, as far as they are not there.

    sent: as in `new_file`. Raises UserFileError for a link below one of them, OSError where it cannot be made.
    """
    folder = _without_dots(folder)
    for place in _below(folder, sent):
        if place.is_symlink():
            raise _link(place)
        place.mkdir(exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)


def _without_dots(path: Path) -> Path:
    """Without `.` and `..`, so that the folders that are looked at are those that are written through."""
    return Path(os.path.normpath(path))


def _below(folder: Path, sent: Sequence[Path]) -> Sequence[Path]:
    """Folders from the first below one of those that were sent down to `folder`; none where it lies elsewhere."""
    whole = Path(os.path.abspath(folder))
    line = [*reversed(whole.parents), whole]
    for index, place in enumerate(line):
        for each in sent:
            with suppress(OSError):
                if os.path.samefile(place, each):
                    return line[index + 1 :]
    return ()


def _mode_of_file(path: Path) -> int | None:
    """The permissions of what lies there; None where nothing does. Raises UserFileError for what no file is."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise _link(path)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise UserFileError(
            "is a device or a pipe", where=str(path), remedy="name an ordinary file, or one that does not exist yet"
        )
    return stat.S_IMODE(mode)


def _link(path: Path) -> UserFileError:
    leads = os.readlink(path)
    return UserFileError(
        f"is a link to {leads}: nnkit does not write through links, which may come with a folder of somebody else's",
        where=str(path),
        remedy="name the place itself, or remove the link",
    )
