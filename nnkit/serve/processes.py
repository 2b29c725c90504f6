"""All processes of a job, measured and ended together, whatever sessions and parents they gave themselves.

They are found in `/proc` of Linux: those of the job's control group where it has one, those of the worker's session,
its children, theirs, and so on. The worker adopts what its children leave behind (`adopt_orphans`), so that nothing
leaves that tree while it lives; what was seen once is remembered by its id and the moment it began, so that it is
still found when the worker has ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nnkit.serve.control_group import ControlGroup

_PROC = Path("/proc")
_STATE, _PARENT, _SESSION, _BEGAN, _RESIDENT_PAGES = 0, 1, 3, 19, 21
"""Fields of `/proc/PID/stat` (proc_pid_stat(5)), counted behind the name, which may hold blanks."""

_PR_SET_CHILD_SUBREAPER = 36
_PAUSE_SECONDS = 0.01
_MOST_SECONDS = 10.0
"""For ending all of a job: what a device holds up ends later, by the signal that it has got."""


def can_be_seen() -> bool:
    """Whether this system lists processes and the memory that they hold."""
    return (_PROC / "self" / "stat").is_file()


def adopt_orphans() -> None:
    """Descendants of this process whose parent ends become its own children, not the system's."""
    with suppress(OSError, AttributeError):  # a system without prctl
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@dataclass(frozen=True)
class _Process:
    """One line of the table. began: ticks since the machine's start, so that an id given anew is told apart."""

    parent: int
    session: int
    began: int
    resident_pages: int
    ended: bool


class JobProcesses:
    """The processes of one job. leader: its worker, which leads a session of its own. group: which it is in."""

    def __init__(self, leader: int, group: ControlGroup | None = None) -> None:
        self._leader = leader
        self._group = group if group is not None and group.add(leader) else None
        self._seen: dict[int, int] = {}
        """Moment of beginning by id."""
        self._members()

    def resident_bytes(self) -> int:
        """What all of them have in memory together; pages that they share count for each, unless a group counts."""
        held = None if self._group is None else self._group.held_bytes()
        if held is not None:
            return held
        return sum(each.resident_pages for each in self._members().values()) * os.sysconf("SC_PAGE_SIZE")

    def end(self) -> None:
        """Kill all of them, those included that begin meanwhile. The worker is last: it adopts what others leave."""
        if not can_be_seen():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader, signal.SIGKILL)
            return
        self._signal_leader(signal.SIGSTOP)  # it begins no more
        until = time.monotonic() + _MOST_SECONDS
        while others := [pid for pid, each in self._members().items() if pid != self._leader and not each.ended]:
            if self._group is not None:
                self._group.kill()
            for pid in others:
                _signal(pid, signal.SIGKILL)
            if time.monotonic() > until:
                break
            time.sleep(_PAUSE_SECONDS)
        self._signal_leader(signal.SIGKILL)

    def _signal_leader(self, number: int) -> None:
        if self._leader in self._members():  # else its id may be another's by now
            _signal(self._leader, number)

    def _members(self) -> Mapping[int, _Process]:
        """Those that are there now, by id; one that has ended and waits for its parent to ask counts, too."""
        table = _table()
        roots = [pid for pid, began in self._seen.items() if pid in table and table[pid].began == began]
        roots += [pid for pid, each in table.items() if each.session == self._leader]
        roots += [pid for pid in (self._group.members() if self._group is not None else ()) if pid in table]
        children: dict[int, list[int]] = {}
        for pid, each in table.items():
            children.setdefault(each.parent, []).append(pid)
        processes: dict[int, _Process] = {}
        while roots:
            pid = roots.pop()
            if pid not in processes:
                processes[pid] = table[pid]
                roots += children.get(pid, ())
        self._seen = {pid: each.began for pid, each in processes.items()}
        return processes


def _table() -> dict[int, _Process]:
    table: dict[int, _Process] = {}
    for stat in _PROC.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parent, session, began, pages = (int(fields[at]) for at in (_PARENT, _SESSION, _BEGAN, _RESIDENT_PAGES))
        table[int(stat.parent.name)] = _Process(parent, session, began, pages, fields[_STATE] in "ZX")
    return table


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
