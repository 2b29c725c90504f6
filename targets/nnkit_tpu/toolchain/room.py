"""Folders for the vendor's programs to work in: where that of temporary files is full, the message says so.

Without room the compiler and the chip models fail in ways of their own, from a crash to a model that cannot be read.
"""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nnkit.errors import NnkitError, ToolError, UserFileError
from nnkit.owned_folder import temporary_folder

_LITTLE_ROOM_BYTES = 1 << 24
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def working_folder(prefix: str) -> Iterator[Path]:
    """A temporary folder.

    Raises UserFileError in place of a ToolError or OSError of the block where the folder of temporary files is full.
    """
    try:
        with temporary_folder(prefix) as temporary:
            try:
                yield temporary
            except ToolError as error:  # asked here: what fills the folder may be removed with it
                if is_full():
                    raise no_room() from error
                raise
            except OSError as error:
                if error.errno in _NO_ROOM and is_full():
                    raise no_room() from error
                raise
    except OSError as error:
        if error.errno in _NO_ROOM and error.filename is not None and is_full():  # there is not even the folder
            raise no_room() from error
        raise


def is_full() -> bool:
    """Whether less room is left for temporary files than the smallest compilation takes, by disk or quota."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(bytes(_LITTLE_ROOM_BYTES))
    except OSError as error:
        return error.errno in _NO_ROOM
    return False


def no_room() -> NnkitError:
    """The error that says so, with the folder."""
    return UserFileError(
        "temporary files cannot be written: no room is left",
        where=tempfile.gettempdir(),
        remedy="free some space there, or set TMPDIR to another folder",
    )
