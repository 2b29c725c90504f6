"""The output folder: written aside and moved into place at the end, so that the last good build survives.

Folders that exist for a moment beside `<target>`: `.<target>.new-*` is a build in the making, `.<target>.old-*` the
build that a commit is just replacing. Both have an owner (`nnkit.owned_folder`): what a killed run left, the next one
removes. A run that is killed between the two renames of a commit leaves the good build under the second name; the
next run puts it back.
"""

from __future__ import annotations

import errno
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from nnkit.errors import UserFileError
from nnkit.output_file import make_folder
from nnkit.owned_folder import owned_folder, sweep

_ATTEMPTS = 20  # a commit starts anew when another run's came between its two renames
_NO_NAME = (None, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EACCES, errno.EROFS)


def _unwritable(folder: Path, error: OSError) -> UserFileError:
    return UserFileError(
        f"cannot write the output folder: {error.strerror or error}",
        where=str(folder),
        remedy="choose another folder with --out, or make this one writable",
    )


class StagedBuild:
    """A build in the making, in a temporary folder beside its destination."""

    def __init__(self, destination: Path, folder: Path) -> None:
        self.destination = destination
        self.folder = folder

    def commit(self, *, failed: bool = False) -> Path:
        """Move into place: `<target>`, or `<target>.failed` for a build that did not pass. Returns where it is.

        Of runs that commit side by side the last one wins. Raises UserFileError where it cannot be moved.
        """
        place = _failed_place(self.destination) if failed else self.destination
        try:
            _refuse_file(place)
            _replace(self.folder, place)
        except OSError as error:
            raise _unwritable(place, error) from error
        if not failed:
            _remove(_failed_place(self.destination))
        return place


def _failed_place(destination: Path) -> Path:
    return destination.with_name(destination.name + ".failed")


def _refuse_file(place: Path) -> None:
    try:
        mode = place.stat().st_mode  # once: another run's commit may come in between two questions
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, "a file of this name is in the way")


def _replace(folder: Path, place: Path) -> None:
    """Rename `folder` to `place`; what was there is removed only after that."""
    for attempt in range(_ATTEMPTS):
        with owned_folder(place.parent, f".{place.name}.old-", rescue=partial(_put_back, place)) as aside:
            old = aside / place.name
            try:
                with suppress(FileNotFoundError):
                    place.rename(old)
                folder.rename(place)
                return
            except BaseException as error:  # an interruption too must not lose the good build
                _put_back(place, aside)
                taken = isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST)
                if not taken or attempt == _ATTEMPTS - 1:
                    raise


def _put_back(place: Path, aside: Path) -> None:
    """The good build that a commit left aside; where it cannot be moved (OSError), it stays there."""
    if (aside / place.name).exists() and not place.exists():
        (aside / place.name).rename(place)


def _remove(path: Path) -> None:
    if path.is_symlink():
        with suppress(OSError):
            path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _tidy(destination: Path) -> None:
    """Put a good build back that a killed commit left aside, and remove what killed runs left."""
    for place in (destination, _failed_place(destination)):
        sweep(place.parent, f".{place.name}.old-", rescue=partial(_put_back, place))


@contextmanager
def staged_build(destination: Path) -> Iterator[StagedBuild]:
    """A staged folder for `destination`, `<out>/<name>/<target>`; removed on any error or interruption.

    No link below `<out>`, which the user names, is followed.
    Raises UserFileError where the folder cannot be made or is a file or a link, or the disk is full.
    """
    stack = ExitStack()
    try:
        make_folder(destination.parent, sent=[destination.parent.parent])
        _refuse_file(destination)
        _tidy(destination)
        folder = stack.enter_context(owned_folder(destination.parent, f".{destination.name}.new-"))
        folder.chmod(0o755)
    except OSError as error:
        stack.close()
        raise _unwritable(destination, error) from error
    try:
        yield StagedBuild(destination, folder)
    except OSError as error:
        # Writing to an open file does not know its name; the user's files are read by `nnkit.reading`, which does.
        # numpy's `tofile` knows no reason either (errno None): "64 requested and 0 written".
        unnamed = error.filename is None and error.errno in _NO_NAME
        if unnamed or Path(str(error.filename or "")).is_relative_to(folder):
            raise _unwritable(destination, error) from error
        raise
    finally:
        stack.close()
