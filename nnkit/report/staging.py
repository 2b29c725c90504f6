"""The output folder: written aside and moved into place at the end, so that the last good build survives."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnkit.errors import UserFileError


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
        """Move into place: `<target>`, or `<target>.failed` for a build that did not pass. Returns where it is."""
        place = self.destination.with_name(self.destination.name + ".failed") if failed else self.destination
        old = place.with_name(f".{place.name}.old-{os.getpid()}")
        try:
            if place.exists():
                place.rename(old)
            self.folder.rename(place)
        except OSError as error:
            if old.exists() and not place.exists():
                old.rename(place)
            raise _unwritable(place, error) from error
        shutil.rmtree(old, ignore_errors=True)
        if not failed:
            stale = self.destination.with_name(self.destination.name + ".failed")
            shutil.rmtree(stale, ignore_errors=True)
        return place


@contextmanager
def staged_build(destination: Path) -> Iterator[StagedBuild]:
    """A staged folder for `destination`; removed on any error or interruption.

    Raises UserFileError where the folder cannot be made or is a file.
    """
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        if destination.exists() and not destination.is_dir():
            raise NotADirectoryError(20, "a file of this name is in the way")
        folder = Path(tempfile.mkdtemp(prefix=f".{destination.name}.new-", dir=destination.parent))
        folder.chmod(0o755)
    except OSError as error:
        raise _unwritable(destination, error) from error
    try:
        yield StagedBuild(destination, folder)
    except OSError as error:
        if Path(str(error.filename or "")).is_relative_to(folder):
            raise _unwritable(destination, error) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
