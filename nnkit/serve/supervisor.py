"""Runs the jobs that wait: a process group each, which ends with the job, with its time, or with the server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

from nnkit.keeper import keep
from nnkit.serve.limits import ServeOptions
from nnkit.serve.memory import resident_bytes
from nnkit.serve.store import JobRecord, Store
from nnkit.serve.worker import write_order
from nnkit.trust import user_settings

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 5.0
"""For a group that was asked to end, before it is killed."""


class Supervisor:
    """As many jobs at a time as there are slots."""

    def __init__(self, store: Store, options: ServeOptions) -> None:
        self._store, self._options = store, options
        self._wake = threading.Condition()
        self._stopping = False
        self._cancelled: set[str] = set()
        self._threads = [
            threading.Thread(target=self._serve, name=f"job slot {index}", daemon=True)
            for index in range(options.slots)
        ]

    def start(self) -> None:
        """Begin, with what waits already."""
        keep()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End what runs; it waits for the next start of a server. Returns when all has ended."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        for thread in self._threads:
            thread.join()

    def notify(self) -> None:
        """There is a new job."""
        with self._wake:
            self._wake.notify()

    def cancel(self, name: str) -> bool:
        """End a job that waits or runs, with all its processes; False for one that has ended."""
        if self._store.change(name, lambda job: job.state == "waiting", state="cancelled", error="cancelled"):
            return True
        with self._wake:
            self._cancelled.add(name)
        return self._store.change(name, lambda job: job.state == "running") is not None

    def _serve(self) -> None:
        while True:
            with self._wake:
                job = None if self._stopping else self._store.next_waiting()
                if job is None:
                    if self._stopping:
                        return
                    self._wake.wait(1.0)
                    continue
            try:
                self._run(job)
            except OSError as error:  # a full disk, no more processes: the job's fault or not, the server goes on
                self._end(job, state="failed", error=f"the server could not run it: {error.strerror or error}")

    def _run(self, job: JobRecord) -> None:
        folder = self._store.folder(job.id)
        for path in (folder.journal.path, folder.result):
            path.unlink(missing_ok=True)
        write_order(folder, job.target, job.settings, self._options.executor)
        with folder.log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "nnkit.serve.worker", str(folder.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        limit = self._options.limits.job_seconds * user_settings().time_factor
        ends = time.monotonic() + limit
        most = self._options.limits.job_memory_bytes
        ended = ""
        while process.poll() is None:
            if time.monotonic() > ends:
                ended = f"it took longer than {limit:g} s"
            elif most is not None and resident_bytes(process.pid) > most:
                ended = f"it took more than {most >> 20:,} MiB of memory"
                _kill_group(process.pid)  # at once: it may be growing
            if ended or self._stopping or job.id in self._cancelled:
                _end_group(process)
            time.sleep(_POLL_SECONDS)
        _kill_group(process.pid)
        if job.id in self._cancelled:
            self._cancelled.discard(job.id)
            self._end(job, state="cancelled", error="cancelled")
        elif self._stopping and not folder.result.exists():
            self._end(job, state="waiting")
        else:
            self._end(job, **_outcome(folder.result.read_text("utf-8") if folder.result.exists() else "", ended))

    def _end(self, job: JobRecord, **fields: str) -> None:
        self._store.change(job.id, lambda now: now.state == "running", **fields)


def _outcome(result: str, ended: str) -> dict[str, str]:
    """What a result says; without one the process was ended. ended: by which limit; empty: by nobody here."""
    if not result:
        reason = f"it was ended: {ended or 'something killed it, as the system does where memory runs out'}"
        return {"state": "failed", "error": reason}
    outcome = json.loads(result)
    if "error" in outcome:
        return {"state": "failed", "error": outcome["error"]}
    return {"state": "done", "status": outcome["status"]}


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ask a group to end, and kill it where it does not."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _kill_group(process.pid)
        process.wait()


def _kill_group(group: int) -> None:
    """What is left of a group whose leader has ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
