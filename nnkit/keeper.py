"""What this process starts ends with it, also when it is killed, which no handler sees.

A small shell waits for the end of a pipe that this process holds, and then kills whatever runs with the mark of this
process among its variables: compilers and what they start, worker processes, a cluster. Linux tells the variables of
a process in /proc; elsewhere nothing is done.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from nnkit.children.search import found_program
from nnkit.children.start import start

VARIABLE = "NNKIT_RUN"
_SCRIPT = r"""
trap '' INT TERM HUP QUIT
while read -r _; do :; done
round=0
while [ $round -lt 40 ]; do
    found=
    for each in $(grep -lszxF -e "$1" /proc/[0-9]*/environ); do
        pid=${each#/proc/}; pid=${pid%/environ}
        kill -KILL "$pid" 2>/dev/null && found=1
    done
    [ -n "$found" ] || [ $round -lt 2 ] || break
    round=$((round + 1)); sleep 0.1
done
"""


def keep() -> dict[str, str]:
    """The variable that a process needs to end with this one; it is set here too, for all that inherit from here."""
    mark = _mark(os.getpid())
    if mark:
        os.environ[VARIABLE] = mark
    return {VARIABLE: mark} if mark else {}


@lru_cache(maxsize=1)
def _mark(pid: int) -> str:
    """The mark of this process, whose keeper is started with it; empty where there can be none."""
    shell, grep = found_program("sh"), found_program("grep")
    if sys.platform != "linux" or shell is None or grep is None or not Path("/proc/self/environ").exists():
        return ""
    mark = f"{pid}-{secrets.token_hex(8)}"
    try:
        process = start(
            [shell, "-c", _SCRIPT, "nnkit-keeper", f"{VARIABLE}={mark}"],
            folder=Path("/"),
            environment={"PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.PIPE,
        )
    except OSError:
        return ""
    pipe = process.stdin
    if pipe is not None:
        ends = [os.dup(pipe.fileno())]  # open until this process ends: Python would close the pipe's object before
        pipe.close()
        os.register_at_fork(after_in_child=lambda: _close(ends))
    process.returncode = 0  # nobody waits for it
    return mark


def _close(ends: list[int]) -> None:
    """Once: in what a forked process forks in turn, the number may be of another file."""
    while ends:
        with suppress(OSError):
            os.close(ends.pop())
