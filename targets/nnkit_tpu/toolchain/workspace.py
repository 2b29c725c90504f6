"""The folder that the compiler works in: it goes with the build, but the log of a failure stays."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nnkit.cache import default_folder
from nnkit.errors import NnkitError, ToolError, UserFileError
from nnkit.owned_folder import temporary_folder
from nnkit_tpu.toolchain.run import CompilerError

_MOST_LOGS = 20
_LITTLE_ROOM_BYTES = 1 << 24
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def compiler_folder() -> Iterator[Path]:
    """A temporary folder.

    Raises ToolError for a CompilerError of the block, with a log that stays, and UserFileError where the folder of
    temporary files is full.
    """
    try:
        with temporary_folder("nnkit-tpu-") as temporary:
            try:
                yield temporary
            except CompilerError as error:
                raise (_no_room() if _is_full() else _with_kept_log(error)) from error
            except OSError as error:
                if error.errno in _NO_ROOM and _is_full():
                    raise _no_room() from error
                raise
    except OSError as error:
        if error.errno in _NO_ROOM and error.filename is not None and _is_full():  # there is not even the folder
            raise _no_room() from error
        raise


def _with_kept_log(error: CompilerError) -> ToolError:
    kept = _keep(error.log)
    seen = f"the compiler's log is {kept}" if kept is not None else "the compiler's log could not be kept"
    remedy = f"{error.advice}; {seen}" if error.advice else seen
    return ToolError(error.reason, where=error.where, remedy=remedy)


def _keep(log: str) -> Path | None:
    """The log as a file of the user's cache, which keeps the latest; None where that cannot be written."""
    folder = default_folder() / "logs"
    path = folder / f"tpuc-opt-{hashlib.sha256(log.encode()).hexdigest()[:12]}.log"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(log, encoding="utf-8")
        by_age = sorted(folder.glob("tpuc-opt-*.log"), key=lambda each: each.stat().st_mtime, reverse=True)
        for old in by_age[_MOST_LOGS:]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return path


def _is_full() -> bool:
    return shutil.disk_usage(tempfile.gettempdir()).free < _LITTLE_ROOM_BYTES


def _no_room() -> NnkitError:
    return UserFileError(
        "temporary files cannot be written: no room is left",
        where=tempfile.gettempdir(),
        remedy="free some space there, or set TMPDIR to another folder",
    )
