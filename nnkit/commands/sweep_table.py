"""The table of a sweep on disk, `sweep.csv` and `sweep.html`: written as builds end, with those that run now."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nnkit.build_status import RELEASED
from nnkit.errors import UserFileError
from nnkit.output_file import write_output
from nnkit.report.html import sweep_html
from nnkit.report.journal import Journal
from nnkit.report.progress import Step
from nnkit.report.sweep_rows import Row, RowState, figures_of, sweep_csv

if TYPE_CHECKING:
    from nnkit.commands.sweep import Job

_LOOK_SECONDS = 0.5
_SHOWN = 3


class SweepTable:
    """Rows in the order of the builds, then those that stand.

    Raises UserFileError where the files cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        title: str,
        jobs: Sequence[Job],
        out: Path,
        dashboard: str | None,
        standing: Sequence[Row] = (),
    ) -> None:
        self.csv, self.page = folder / "sweep.csv", folder / "sweep.html"
        self._title, self._jobs, self._out = title, jobs, out
        self._dashboard, self._standing = dashboard or "", tuple(standing)
        self._rows = [Row(job.name, job.key, "waiting", job.point.values) for job in jobs]
        self._lock = threading.Lock()
        self._write()

    def set(self, index: int, status: str, seconds: float, report: Mapping[str, Any] | None, error: str) -> None:
        """A build has ended."""
        job, row = self._jobs[index], self._rows[index]
        place = self._out / job.name / (job.key if status in RELEASED else f"{job.key}.failed") / "report.html"
        with self._lock:
            self._rows[index] = replace(
                row,
                state=cast("RowState", status),
                stage="",
                figures={} if report is None else figures_of(report),
                page="" if report is None else place.relative_to(self.page.parent).as_posix(),
                seconds=None if report is None else round(seconds, 3),
                reason=error,
            )
            self._write()

    @contextmanager
    def following(self, step: Step) -> Iterator[None]:
        """Within the block the table says which builds run and where they are, and so does the step.

        What has not ended at the end of the block never will.
        """
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(step, ended), name="sweep table", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            with self._lock:
                self._rows = [
                    replace(row, state="failed", stage="", reason="the sweep was ended before")
                    if row.state in ("waiting", "running")
                    else row
                    for row in self._rows
                ]
                self._write()

    def _watch(self, step: Step, ended: threading.Event) -> None:
        while not ended.wait(_LOOK_SECONDS):
            with self._lock:
                before = list(self._rows)
                for index, row in enumerate(before):
                    journal = self._jobs[index].journal
                    if row.state in ("waiting", "running") and journal is not None:
                        events = Journal(journal).events()
                        if events:
                            self._rows[index] = replace(row, state="running", stage=events[-1].stage)
                if self._rows != before:
                    with suppress(UserFileError):  # the main thread says it, where it ends builds
                        self._write()
            running = [f"{row.target} ({row.stage})" for row in self._rows if row.state == "running"]
            more = f" and {len(running) - _SHOWN} more" if len(running) > _SHOWN else ""
            if running:
                step.say(", ".join(running[:_SHOWN]) + more)

    def _write(self) -> None:
        """Each file whole, whenever somebody reads it."""
        rows = [*self._rows, *self._standing]
        for path, text in (
            (self.csv, sweep_csv(rows)),
            (self.page, sweep_html(self._title, rows, self._dashboard)),
        ):
            write_output(path, text, "the table of the sweep", sent=[self._out])
