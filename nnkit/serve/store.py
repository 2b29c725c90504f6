"""Jobs on disk: a folder each, so that a server that starts again goes on with them.

`<folder>/<id>/`: `job.json` (what the server knows), `input/` (what was sent), `out/` (the builds), `journal.jsonl`
(their stages), `log.txt` (what it wrote), `result.json` (how it ended, by the process that built it).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter

from nnkit.errors import UsageError, cannot_be_written
from nnkit.report.journal import Journal
from nnkit.terminal import note_line

try:
    import fcntl
except ImportError:  # Windows: nothing is locked
    fcntl = None  # type: ignore[assignment]

JobState: TypeAlias = Literal["waiting", "running", "done", "failed", "cancelled"]
ENDED: tuple[JobState, ...] = ("done", "failed", "cancelled")

_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class JobRecord:
    """What the server keeps of a job.

    owner: digest of who sent it. target: the only one to build for; empty: all of the recipe's. status: of the build
    that is done, or of the worst where there are several. error: why there is none. address: digest of where it was
    sent from. begun: how often a worker was started for it that its server did not see the end of.
    """

    id: str
    owner: str
    name: str
    target: str
    created: float
    state: JobState = "waiting"
    status: str = ""
    error: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    address: str = ""
    begun: int = 0


@dataclass(frozen=True)
class Sender:
    """Who sends a job, and from where: digests."""

    owner: str
    address: str = ""


class TooManyJobsError(Exception):
    """A sender has as many jobs as one may have."""


_RECORD = TypeAdapter(JobRecord)
_MOST_BEGUN = 2
_BEGUN_TOO_OFTEN = (
    f"it was running {_MOST_BEGUN} times when the server was killed, and is not begun again\n"
    "  fix: send it anew, smaller if it is large; whoever runs the server sees there what ended it"
)


@dataclass(frozen=True)
class JobFolder:
    """Where what of a job lies."""

    path: Path

    @property
    def input(self) -> Path:
        """What was sent."""
        return self.path / "input"

    @property
    def out(self) -> Path:
        """Builds: `out/<name>/<target>`."""
        return self.path / "out"

    @property
    def journal(self) -> Journal:
        """Its stages."""
        return Journal(self.path / "journal.jsonl")

    @property
    def log(self) -> Path:
        """What it wrote."""
        return self.path / "log.txt"

    @property
    def result(self) -> Path:
        """How it ended."""
        return self.path / "result.json"

    def builds(self) -> list[Path]:
        """Folders of its builds."""
        return sorted(report.parent for report in self.out.glob("*/*/report.json"))


@contextmanager
def only_server(folder: Path) -> Iterator[None]:
    """While in the block, no other server works on the folder. Raises UsageError where one does, UserFileError where
    the folder cannot be used."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / ".server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise cannot_be_written(folder, error, "the folder of jobs") from error
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        remedy = "end the other server, or give this one another --folder"
        raise UsageError("another server works on this folder", where=str(folder), remedy=remedy) from error
    finally:
        os.close(handle)


class Store:
    """All jobs of a server. Raises UserFileError where the folder cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._jobs: dict[str, JobRecord] = {}
        self._arriving: dict[str, Sender] = {}
        self._unwritten: set[str] = set()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in sorted(folder.glob("*/job.json")):
                if _ID.fullmatch(path.parent.name):
                    self._read(path)
        except OSError as error:
            raise cannot_be_written(folder, error, "the folder of jobs") from error

    def _read(self, path: Path) -> None:
        """One job of a server before; one that ran then waits again, unless that ended its server twice. One whose
        file is damaged is set aside."""
        try:
            record = _RECORD.validate_json(path.read_bytes(), strict=True)
            if record.id != path.parent.name:
                raise ValueError(f"it is job {record.id}'s")
        except (ValueError, OSError) as error:
            aside = path.parent.with_name(f"{path.parent.name}.damaged")
            if aside.exists():
                aside = aside.with_name(f"{aside.name}.{secrets.token_hex(4)}")
            path.parent.rename(aside)
            reason = str(error).splitlines()[0]
            note_line(f"warning: {path} is no job of this version ({reason}): it is set aside as {aside}")
            return
        if record.state == "running" and record.begun >= _MOST_BEGUN:
            record = replace(record, state="failed", error=_BEGUN_TOO_OFTEN)
        elif record.state == "running":
            record = replace(record, state="waiting")
        self._jobs[record.id] = record

    def new_folder(self, sender: Sender, per_user: int, per_address: int) -> tuple[str, JobFolder]:
        """A folder to put uploads into, before there is a job. per_address: 0: it does not count.

        Raises TooManyJobsError, with what to do; OSError.
        """
        with self._lock:
            senders = [*self._arriving.values(), *(Sender(job.owner, job.address) for job in self._jobs.values())]
            mine = sum(each.owner == sender.owner for each in senders)
            near = sum(each.address == sender.address for each in senders)
            if mine >= per_user:
                raise TooManyJobsError(f"you have {mine} jobs: remove some")
            if per_address and near >= per_address:
                raise TooManyJobsError(
                    f"{near} jobs were sent from this address: remove some, or have who runs the server remove them"
                )
            name = secrets.token_hex(8)
            self._arriving[name] = sender
        folder = self.folder(name)
        try:
            folder.path.mkdir(mode=0o700)
            folder.input.mkdir()
        except OSError:
            self.discard(folder)
            raise
        return name, folder

    def folder(self, name: str) -> JobFolder:
        """The folder of a job."""
        return JobFolder(self._folder / name)

    def add(self, record: JobRecord) -> None:
        """A job whose files are there. Raises OSError where it cannot be kept."""
        with self._lock:
            self._write(record)
            self._jobs[record.id] = record
            self._arriving.pop(record.id, None)

    def of(self, owner: str) -> list[JobRecord]:
        """The jobs of one user, the newest first."""
        with self._lock:
            mine = [record for record in self._jobs.values() if record.owner == owner]
        return sorted(mine, key=lambda record: -record.created)

    def get(self, name: str, owner: str) -> JobRecord | None:
        """A job of this user's; None for another's, as for one that there is not."""
        with self._lock:
            record = self._jobs.get(name) if _ID.fullmatch(name) else None
        return record if record is not None and record.owner == owner else None

    def change(self, name: str, when: Callable[[JobRecord], bool], **fields: Any) -> JobRecord | None:
        """Changes a job if it is as expected; None where it is not, or is gone.

        Where the disk is full, the change counts all the same, and is written once there is space (`catch_up`).
        """
        with self._lock:
            record = self._jobs.get(name)
            if record is None or not when(record):
                return None
            record = replace(record, **fields)
            self._jobs[name] = record
            self._unwritten.add(name)
            self.catch_up()
            return record

    def catch_up(self) -> None:
        """Write what could not be written before; a job that cannot be, as its folder was removed, stops no other."""
        with self._lock:
            for name in tuple(self._unwritten):
                with suppress(OSError):
                    if name in self._jobs:
                        self._write(self._jobs[name])
                    self._unwritten.discard(name)

    def next_waiting(self) -> JobRecord | None:
        """The job to begin with: of the users with the fewest jobs running, the oldest. It runs from now on."""
        with self._lock:
            running = [record.owner for record in self._jobs.values() if record.state == "running"]
            waiting = [record for record in self._jobs.values() if record.state == "waiting"]
            if not waiting:
                return None
            first = min(waiting, key=lambda record: (running.count(record.owner), record.created))
            return self.change(first.id, lambda _: True, state="running", begun=first.begun + 1)

    def remove(self, name: str) -> None:
        """A job that has ended, and all its files."""
        with self._lock:
            self._jobs.pop(name, None)
        self.discard(self.folder(name))

    def discard(self, folder: JobFolder) -> None:
        """Files of no job."""
        shutil.rmtree(folder.path, ignore_errors=True)
        with self._lock:
            self._arriving.pop(folder.path.name, None)

    def sweep(self) -> None:
        """Removes what uploads left that were cut off by the end of a server before."""
        for path in self._folder.iterdir():
            if _ID.fullmatch(path.name) and path.name not in self._jobs:
                self.discard(JobFolder(path))

    def _write(self, record: JobRecord) -> None:
        path = self.folder(record.id).path / "job.json"
        new = path.with_name(f".job.{os.getpid()}.new")
        try:
            new.write_text(json.dumps(asdict(record)), encoding="utf-8")
            new.replace(path)
        except OSError:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise


def new_record(name: str, sender: Sender, title: str, target: str, settings: dict[str, Any]) -> JobRecord:
    """A job that was sent just now."""
    return JobRecord(name, sender.owner, title, target, time.time(), settings=settings, address=sender.address)
