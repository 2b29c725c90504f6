"""A job's own control group (cgroup v2 of Linux), where one can be made below the server's.

Nothing that a job starts leaves it, whatever its parent and session. Where the memory controller is there (a service
with `Delegate=yes`, a container whose groups may be written), the kernel bounds the job's memory, too.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_OWN, _MOUNTS = Path("/proc/self/cgroup"), Path("/proc/self/mountinfo")
_SERVER = "nnkit-serve"


@dataclass(frozen=True)
class ControlGroup:
    """The group's folder."""

    path: Path

    def add(self, pid: int) -> bool:
        """Put a process into it, and with it all that the process starts; whether that could be done."""
        return _written(self.path / "cgroup.procs", str(pid))

    def members(self) -> list[int]:
        """Ids of its processes."""
        return [int(line) for line in _lines(self.path / "cgroup.procs")]

    def held_bytes(self) -> int | None:
        """Memory of its processes, each shared page once, caches of files left out; None where nobody counts it."""
        counted = dict(line.split(" ", 1) for line in _lines(self.path / "memory.stat"))
        return int(counted["anon"]) + int(counted["shmem"]) if {"anon", "shmem"} <= counted.keys() else None

    def reached_its_limit(self) -> bool:
        """Whether the kernel ended it for its memory."""
        return any(
            line.startswith("oom_kill ") and line != "oom_kill 0" for line in _lines(self.path / "memory.events")
        )

    def kill(self) -> None:
        """End all of it, at once."""
        _written(self.path / "cgroup.kill", "1")

    def remove(self) -> None:
        """Give it up, when its processes have ended."""
        with suppress(OSError):
            self.path.rmdir()


def own_group() -> Path | None:
    """The group that this process is in; None where this system has none."""
    mounts = (line.split(" - ", 1) for line in _lines(_MOUNTS))
    places = [left.split()[4] for left, right in mounts if right.split()[0] == "cgroup2"]
    own = [line.removeprefix("0::/") for line in _lines(_OWN) if line.startswith("0::/")]
    return Path(places[0]) / own[0] if places and own else None


def group_of_jobs() -> Path | None:
    """The group below which those of jobs are made: the server's.

    The server moves into a group of its own there: the kernel bounds memory only below groups without processes.
    """
    own = own_group()
    if own is not None and "memory" in " ".join(_lines(own / "cgroup.controllers")).split():
        with suppress(OSError):
            (own / _SERVER).mkdir(exist_ok=True)
        moved = _written(own / _SERVER / "cgroup.procs", "0")
        if not _written(own / "cgroup.subtree_control", "+memory") and moved:
            _written(own / "cgroup.procs", "0")  # others are in it, too: groups bound nothing here
    return own


def make_group(parent: Path | None, name: str, memory_bytes: int | None) -> ControlGroup | None:
    """A group for a job, ended by the kernel as a whole beyond so much memory where it can; None without a parent."""
    if parent is None:
        return None
    group = ControlGroup(parent / f"nnkit-job-{name}")
    try:
        group.remove()  # of a server before
        group.path.mkdir()
    except OSError:
        return None
    if memory_bytes is not None and _written(group.path / "memory.max", str(memory_bytes)):
        _written(group.path / "memory.swap.max", "0")
        _written(group.path / "memory.oom.group", "1")
    return group


def _written(path: Path, text: str) -> bool:
    try:
        with path.open("r+", encoding="ascii") as file:
            file.write(text)
    except OSError:
        return False
    return True


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
