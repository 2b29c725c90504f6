"""How much memory a job holds, and how much there is: from `/proc` of Linux."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")
_SESSION, _RESIDENT_PAGES = 3, 21
"""Fields of `/proc/PID/stat` (proc_pid_stat(5)), counted behind the name, which may hold blanks."""

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def can_be_measured() -> bool:
    """Whether this system tells what processes hold."""
    return (_PROC / "self" / "stat").is_file()


def resident_bytes(session: int) -> int:
    """What all processes of a session have in memory together; pages that they share count for each."""
    pages = 0
    for stat in _PROC.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[_SESSION]) == session:
            pages += int(fields[_RESIDENT_PAGES])
    return pages * os.sysconf("SC_PAGE_SIZE")


def default_limit_bytes(jobs: int) -> int | None:
    """Three quarters of the memory of this machine or container, for so many jobs at a time; None where unknown."""
    if not can_be_measured():
        return None
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    text = _CGROUP_LIMIT.read_text().strip() if _CGROUP_LIMIT.is_file() else ""
    if text.isdecimal():  # else `max`
        there = min(there, int(text))
    return there * 3 // 4 // jobs
