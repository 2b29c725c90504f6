"""The output folder: written aside and moved into place at the end, so that the last good build survives.

Folders that exist for a moment beside `<target>`: `.<target>.new-*` is a build in the making, `.<target>.old-*` the
build that a commit is just replacing. A run that is killed between the two renames of a commit leaves the good build
under the second name; the next run puts it back.
"""

from __future__ import annotations

import errno
import glob
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nnkit.errors import UserFileError

_ATTEMPTS = 20  # a commit starts anew when another run's came between its two renames
_NEW_SECONDS = 24 * 3600.0  # a build in the making of this age belongs to a run that was killed
_OLD_SECONDS = 10.0  # the two renames of a commit are microseconds apart
_FULL = (errno.ENOSPC, errno.EDQUOT)


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
        aside = Path(tempfile.mkdtemp(prefix=f".{place.name}.old-", dir=place.parent))
        old = aside / place.name
        try:
            with suppress(FileNotFoundError):
                place.rename(old)
            folder.rename(place)
        except BaseException as error:  # an interruption too must not lose the good build
            if old.exists() and not place.exists():
                old.rename(place)
            _remove(aside)
            taken = isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST)
            if not taken or attempt == _ATTEMPTS - 1:
                raise
        else:
            _remove(aside)
            return


def _remove(path: Path) -> None:
    if path.is_symlink():
        with suppress(OSError):
            path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _tidy(destination: Path) -> None:
    """Put a good build back that a killed commit left aside, and remove what killed runs left."""
    for place in (destination, _failed_place(destination)):
        for aside in _left_behind(place, "old", _OLD_SECONDS):
            if not place.exists():
                with suppress(OSError):
                    (aside / place.name).rename(place)
            _remove(aside)
    for folder in _left_behind(destination, "new", _NEW_SECONDS):
        _remove(folder)


def _left_behind(place: Path, kind: str, seconds: float) -> list[Path]:
    """Temporary folders of `place` that are older than a run at work would leave them."""
    left = []
    for path in sorted(place.parent.glob(f".{glob.escape(place.name)}.{kind}-*")):
        with suppress(OSError):  # another run removed it
            if time.time() - path.stat().st_mtime > seconds:
                left.append(path)
    return left


@contextmanager
def staged_build(destination: Path) -> Iterator[StagedBuild]:
    """A staged folder for `destination`; removed on any error or interruption.

    Raises UserFileError where the folder cannot be made or is a file, or the disk is full.
    """
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        _refuse_file(destination)
        _tidy(destination)
        folder = Path(tempfile.mkdtemp(prefix=f".{destination.name}.new-", dir=destination.parent))
        folder.chmod(0o755)
    except OSError as error:
        raise _unwritable(destination, error) from error
    try:
        yield StagedBuild(destination, folder)
    except OSError as error:
        # A full disk comes without a file's name: writing to an open file does not know it.
        if error.errno in _FULL or Path(str(error.filename or "")).is_relative_to(folder):
            raise _unwritable(destination, error) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
