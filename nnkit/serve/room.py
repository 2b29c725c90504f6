"""A full disk, reported as such."""

from __future__ import annotations

import errno

DISK_FULL = (
    "the server's disk is full\n"
    "  fix: remove jobs that you are done with, or tell whoever runs the server; then send it again"
)
"""What a sender reads."""

DISK_FULL_CODE = 74
"""Exit code of a worker that had no room to say more (EX_IOERR of sysexits.h)."""

_ERRORS = (errno.ENOSPC, errno.EDQUOT)


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or one that it came from, is that there is no room (or no more for this user)."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _ERRORS:
            return True
        error = error.__cause__ or error.__context__
    return False
