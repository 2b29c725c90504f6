"""Folders that code is loaded from: whoever can write there, or rename what is above it, runs code as this user.

As OpenSSH judges the files of its keys: the file or folder and all folders above it belong to this user or to root,
and nobody else may write to them; a folder above may be written by all where only owners can rename (`/tmp`).
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def why_not_private(path: Path) -> str | None:
    """Why others could change what is at `path`, and how to mend it; None where they cannot.

    What is not there is private where it would be made. On systems without owners (Windows) nothing is said.
    """
    if not hasattr(os, "getuid"):
        return None
    place = Path(os.path.realpath(path))
    for each in (place, *place.parents):
        try:
            status = each.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{each} cannot be looked at: {error.strerror or error}"
        if status.st_uid not in (os.getuid(), 0):
            return f"{each} belongs to another user"
        sticky = each != place and status.st_mode & stat.S_ISVTX
        if status.st_mode & _OTHERS_WRITE and not sticky and not _own_group(status):
            return f"others may write to {each} (chmod go-w {each})"
    return None


def make_private(folder: Path) -> str | None:
    """Make the folder, for its owner alone, where it is not there; what `why_not_private` says of it then."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return f"{folder} cannot be made: {error.strerror or error}"
    return why_not_private(folder)


@contextmanager
def new_private_file(path: Path, content: bytes) -> Iterator[Path]:
    """A file beside `path`, for its owner alone, with that content; it is removed unless the block has moved it.

    Raises OSError.
    """
    made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        yield made
    finally:
        made.unlink(missing_ok=True)


def _own_group(status: os.stat_result) -> bool:
    """Many systems give each user a group of the same number, with write permission and no other member."""
    if status.st_mode & stat.S_IWOTH or status.st_gid != os.getgid() or os.getgid() != os.getuid():
        return False
    try:
        import grp
        import pwd

        members = grp.getgrgid(status.st_gid).gr_mem
        return set(members) <= {pwd.getpwuid(os.getuid()).pw_name}
    except (ImportError, KeyError):
        return False
