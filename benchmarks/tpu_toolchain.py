"""The vendor's compiler for a benchmark, which measures nothing without it."""

from __future__ import annotations

import sys

from nnkit.errors import ToolError
from nnkit_tpu.toolchain import find_toolchain, install


def why_no_toolchain() -> int:
    """0 where the compiler is there, installed now if it was not; else the exit code, with the reason told."""
    try:
        if find_toolchain() is None:
            sys.stderr.write("installing the TPU toolchain: 220 MB in the user's cache\n")
            install()
    except ToolError as error:
        sys.stderr.write(f"{error}\nnothing was measured\n")
        return error.exit_code
    return 0
