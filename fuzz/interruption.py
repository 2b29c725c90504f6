"""Commands that end in order where they are interrupted: Ctrl-C, and SIGTERM likewise."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

INTERRUPTED = 130
"""The exit code."""


def run_command(main: Callable[[], int]) -> int:
    """The exit code of `main`, in which SIGTERM raises KeyboardInterrupt as Ctrl-C does, so that it can clean up."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
