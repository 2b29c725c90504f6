"""The C compiler of this machine, which runs generated code and makes the counting of calibration faster."""

from __future__ import annotations

import os
import shutil

_COMPILERS = ("cc", "gcc", "clang")


def host_compiler() -> str | None:
    """Path of the C compiler: `CC`, or the first of cc, gcc and clang on PATH. None where there is none."""
    chosen = os.environ.get("CC")
    candidates = (chosen,) if chosen else _COMPILERS
    return next((path for path in map(shutil.which, candidates) if path is not None), None)
