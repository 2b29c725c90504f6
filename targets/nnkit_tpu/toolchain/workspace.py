"""The folder that the compiler works in: it goes with the build, but the log of a failure stays."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

from nnkit.cache import default_folder
from nnkit.errors import ToolError
from nnkit_tpu.toolchain.room import is_full, no_room, working_folder
from nnkit_tpu.toolchain.run import CompilerError

_MOST_LOGS = 20


@contextlib.contextmanager
def compiler_folder() -> Iterator[Path]:
    """A temporary folder.

    Raises ToolError for a CompilerError of the block, with a log that stays, and UserFileError where the folder of
    temporary files is full.
    """
    with working_folder("nnkit-tpu-") as temporary:
        try:
            yield temporary
        except CompilerError as error:
            raise (no_room() if is_full() else _with_kept_log(error)) from error


def _with_kept_log(error: CompilerError) -> ToolError:
    if not error.log.strip() and error.advice:  # it was stopped before it said a word
        return ToolError(error.reason, where=error.where, remedy=error.advice)
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
