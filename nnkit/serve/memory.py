"""How much memory a job may hold: a share of what this machine or container has."""

from __future__ import annotations

import os
from pathlib import Path

from nnkit.serve.processes import can_be_seen

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def default_limit_bytes(jobs: int) -> int | None:
    """Three quarters of the memory of this machine or container, for so many jobs at a time; None where unknown."""
    if not can_be_seen():
        return None
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    text = _CGROUP_LIMIT.read_text().strip() if _CGROUP_LIMIT.is_file() else ""
    if text.isdecimal():  # else `max`
        there = min(there, int(text))
    return there * 3 // 4 // jobs
