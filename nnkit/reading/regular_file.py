"""Reading a file that may be anything: a folder, a pipe, a device, or far too large."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from nnkit.errors import ModelError, NnkitError, UserFileError

MAX_MODEL_BYTES = 2**31
"""Limit of a protobuf message, and far beyond what any of the targets holds; external data counts in."""


def is_broken_link(path: Path) -> bool:
    """Whether it is a link to nothing, or one of some that lead to each other."""
    return path.is_symlink() and not path.exists()


def is_file_or_broken_link(path: Path) -> bool:
    """What a glob may match: no folder, and nothing that is no file but a link to one that is gone."""
    return path.is_file() or is_broken_link(path)


def open_regular(path: Path) -> BinaryIO:
    """A file open for reading, for those that read it in pieces.

    Raises OSError where it cannot be opened, or is a folder, a pipe or a device: a pipe's end might never come.
    """
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(number, "rb")


def check_name(path: str | Path, what: str) -> None:
    """Raise UserFileError where the name of a file that reports name is no text: bytes that are not UTF-8."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError as error:
        reason = f"the name of {what} is not UTF-8, and could not be written into reports"
        remedy = "rename the file, or the folder that is named so"
        raise UserFileError(reason, where=str(path), remedy=remedy) from error


def read_regular_file(path: Path, *, what: str, limit_bytes: int = MAX_MODEL_BYTES) -> bytes:
    """The bytes of a network's file, never of a pipe or a device, which could block or have no end.

    Raises:
        UserFileError: no such file, not readable, or named by bytes that are no text.
        ModelError: not a regular file, or larger than `limit_bytes`.
    """
    check_name(path, what)
    remedy = "a network for these targets is far smaller: check which file this is"
    return _read(path, what, limit_bytes, ModelError, remedy)


def read_bytes(path: Path, *, what: str, limit_bytes: int = MAX_MODEL_BYTES) -> bytes:
    """The bytes of any other file of the user's.

    what: the file in messages, e.g. `the table`.

    Raises:
        UserFileError: no such file, not readable, not a regular file, or larger than `limit_bytes`.
    """
    return _read(path, what, limit_bytes, UserFileError, "check which file this is")


def _read(path: Path, what: str, limit_bytes: int, refused: type[NnkitError], too_large: str) -> bytes:
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise refused(f"{what} is a folder", where=str(path), remedy="name the file inside it")
        if not stat.S_ISREG(status.st_mode):
            raise refused(f"{what} is not a regular file", where=str(path), remedy="name an ordinary file")
        if status.st_size >= limit_bytes:
            raise refused(
                f"{what} has {status.st_size:,} bytes; the limit is {limit_bytes:,}",
                where=str(path),
                remedy=too_large,
            )
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UserFileError(f"{what} does not exist", where=str(path), remedy="check the path") from error
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL character
        reason = getattr(error, "strerror", None) or str(error)
        raise UserFileError(f"{what} cannot be read: {reason}", where=str(path), remedy="check the path") from error
