"""Temporary folders with an owner: a folder whose process is gone, however it ended, is removed by the next run.

Beside a folder `x` lies `x.owner`, a file with the process id that its owner holds locked (flock); the system
releases the lock when the process ends. So whether a folder is in use is known exactly, without ages, also when a
process id was given anew, and between containers that share a disk.
"""

from __future__ import annotations

import glob
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing is locked, and only old folders count as left behind
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".owner"
_OLD_SECONDS = 24 * 3600.0  # a folder without a lock beside it, which no version since has made


@contextmanager
def owned_folder(
    parent: Path, prefix: str, *, rescue: Callable[[Path], None] = lambda folder: None
) -> Iterator[Path]:
    """A new folder `<parent>/<prefix><random>` for this user alone; removed at the end, if it is still there.

    First those of the same prefix are removed whose owner is gone. rescue: is given each folder before it is removed;
    one that it raises OSError for stays.

    Raises OSError where nothing can be made in `parent`.
    """
    sweep(parent, prefix, rescue=rescue)
    folder = parent / f"{prefix}{secrets.token_hex(6)}"
    lock = folder.with_name(folder.name + _SUFFIX)
    handle = locked_file(lock)
    try:
        os.write(handle, f"{os.getpid()}\n".encode())
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        with suppress(OSError):  # what cannot be rescued stays, for the next run
            if folder.exists():
                rescue(folder)
                shutil.rmtree(folder, ignore_errors=True)
            lock.unlink()
        os.close(handle)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """An `owned_folder` among the system's temporary files. Raises OSError where there is no room."""
    with owned_folder(Path(tempfile.gettempdir()), prefix) as folder:
        yield folder


def sweep(parent: Path, prefix: str, *, rescue: Callable[[Path], None] = lambda folder: None) -> None:
    """Remove folders of that prefix whose owner is gone; another user's are left alone."""
    pattern = os.path.join(glob.escape(str(parent)), f"{glob.escape(prefix)}*")
    for name in sorted({path.removesuffix(_SUFFIX) for path in glob.glob(pattern)}):
        folder, lock = Path(name), Path(name + _SUFFIX)
        with suppress(OSError):  # another run removed it
            handle = _lock_left_behind(lock)
            if handle is None and (lock.exists() or not _is_old(folder)):
                continue
            try:
                rescue(folder)
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():
                    lock.unlink(missing_ok=True)
            finally:
                if handle is not None:
                    os.close(handle)


def locked_file(path: Path, mode: int = 0o600) -> int:
    """A new file that this process holds locked; its handle. Raises OSError."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        if fcntl is None:
            return handle
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:  # a sweep in the moment before took it for one left behind
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def is_left_behind(path: Path) -> bool:
    """Whether a file that was made by `locked_file` has lost its owner."""
    try:
        handle = _lock_left_behind(path)
    except OSError:
        return False
    if handle is not None:
        os.close(handle)
    return handle is not None


def _lock_left_behind(lock: Path) -> int | None:
    """A handle that holds the lock, if nobody else does; None where somebody does, or it is not this user's file."""
    if fcntl is None:
        return None
    try:
        handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
    except OSError:
        os.close(handle)
        return None
    os.close(handle)
    return None


def _is_old(folder: Path) -> bool:
    return time.time() - folder.lstat().st_mtime > _OLD_SECONDS
