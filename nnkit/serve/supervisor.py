"""Runs the jobs that wait: each in processes of its own, which end with it, with its time, or with the server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from nnkit.children.start import EVERYTHING, python_child, start
from nnkit.errors import NnkitError
from nnkit.failures import write_traceback
from nnkit.keeper import keep
from nnkit.serve.control_group import group_of_jobs, make_group
from nnkit.serve.limits import ServeOptions
from nnkit.serve.processes import JobProcesses
from nnkit.serve.room import DISK_FULL, DISK_FULL_CODE, is_disk_full
from nnkit.serve.store import JobRecord, Store
from nnkit.serve.worker import write_order
from nnkit.trust import user_settings

_POLL_SECONDS = 0.1


class Supervisor:
    """As many jobs at a time as there are slots."""

    def __init__(self, store: Store, options: ServeOptions) -> None:
        self._store, self._options = store, options
        self._wake = threading.Condition()
        self._stopping = False
        self._cancelled: set[str] = set()
        self._parent_group: Path | None = None
        self._threads = [
            threading.Thread(target=self._serve, name=f"job slot {index}", daemon=True)
            for index in range(options.slots)
        ]

    def start(self) -> None:
        """Begin, with what waits already."""
        self._parent_group = group_of_jobs()
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
                self._store.catch_up()
                job = None if self._stopping else self._store.next_waiting()
                if job is None:
                    if self._stopping:
                        return
                    self._wake.wait(1.0)
                    continue
            try:
                self._run(job)
            except Exception as error:  # whatever it is: this job has ended, and the slot takes the next one
                self._end(job, state="failed", error=_not_run(error))

    def _run(self, job: JobRecord) -> None:
        folder = self._store.folder(job.id)
        for path in (folder.journal.path, folder.result):
            path.unlink(missing_ok=True)
        limit = self._options.limits.job_seconds * user_settings().time_factor
        write_order(folder, job.target, job.settings, self._options.executor)
        # It starts compilers and the vendor's programs, which need variables that are not ours to know.
        command, environment = python_child("nnkit.serve.worker", str(folder.path), inherited=EVERYTHING)
        group = make_group(self._parent_group, job.id, self._options.limits.job_memory_bytes)
        with folder.log.open("wb") as log:
            process = start(
                command, folder=folder.path, environment=environment, stdout=log, stderr=subprocess.STDOUT
            )
        processes, ended = JobProcesses(process.pid, group), ""
        try:
            ended = self._watched(job, process, processes, limit)
        finally:
            processes.end()
            process.wait()
            if group is not None:
                ended = ended or (self._beyond_memory() if group.reached_its_limit() else "")
                group.remove()
        if job.id in self._cancelled:
            self._cancelled.discard(job.id)
            self._end(job, state="cancelled", error="cancelled")
        elif self._stopping and not folder.result.exists():
            self._end(job, state="waiting", begun=job.begun - 1)
        else:
            result = folder.result.read_text("utf-8") if folder.result.exists() else ""
            self._end(job, **_outcome(result, ended, process.returncode))

    def _watched(
        self, job: JobRecord, process: subprocess.Popen[bytes], processes: JobProcesses, limit_seconds: float
    ) -> str:
        """Waits until a worker has ended, or is to be; by which limit, empty where by none."""
        ends = time.monotonic() + limit_seconds
        most = self._options.limits.job_memory_bytes
        while process.poll() is None and not self._stopping and job.id not in self._cancelled:
            held = processes.resident_bytes()  # also without a limit: so what the job starts is known
            if time.monotonic() > ends:
                return f"it took longer than {limit_seconds:g} s"
            if most is not None and held > most:
                return self._beyond_memory()
            time.sleep(_POLL_SECONDS)
        return ""

    def _beyond_memory(self) -> str:
        return f"it took more than {(self._options.limits.job_memory_bytes or 0) >> 20:,} MiB of memory"

    def _end(self, job: JobRecord, **fields: Any) -> None:
        self._store.change(job.id, lambda now: now.state == "running", **fields)


def _not_run(error: Exception) -> str:
    """Why the server could not run a job, for its sender; what is a bug stands on the server's stderr, too."""
    if is_disk_full(error):
        return DISK_FULL
    if isinstance(error, NnkitError):
        return f"the server could not run it: {error}"
    if isinstance(error, OSError):
        return f"the server could not run it: {error.strerror or error}"
    write_traceback(error, sys.stderr)
    return f"a bug in nnkit: {type(error).__name__}: {error}"


def _outcome(result: str, ended: str, code: int) -> dict[str, str]:
    """What a result says; without one the worker was ended, or ended by itself with a code.

    ended: by which limit; empty: by nobody here.
    """
    if code == DISK_FULL_CODE:
        return {"state": "failed", "error": DISK_FULL}
    if not result:
        if not ended and code >= 0:
            return {"state": "failed", "error": f"it ended with code {code}, and its log says why"}
        killed = "something killed it, as the system does where memory runs out"
        return {"state": "failed", "error": f"it was ended: {ended or killed}"}
    outcome = json.loads(result)
    if "error" in outcome:
        return {"state": "failed", "error": outcome["error"]}
    return {"state": "done", "status": outcome["status"]}
