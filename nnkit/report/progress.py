"""Progress on stderr: what runs now, how far it is, and what each stage took."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal, TextIO, TypeAlias

from nnkit.installation import install_command
from nnkit.report.journal import Journal, StageEvent, StageState
from nnkit.terminal import flush, write_line
from nnkit.visible import visible

StageEnd: TypeAlias = Literal["done", "cached", "failed", "interrupted"]
_SAY_SECONDS = 10.0
_COLUMNS = 22  # of a stage's name and its time


@dataclass
class StageTiming:
    """One stage of a run: wall seconds, and whether its result came from the cache."""

    name: str
    seconds: float
    cached: bool


@dataclass
class Progress:
    """Writes to `stream` (stderr); keeps the timings for `run.json`. `quiet` writes nothing there. journal: for those
    who watch from elsewhere."""

    quiet: bool = False
    verbose: bool = False
    stream: TextIO | None = field(default_factory=lambda: sys.stderr)
    timings: list[StageTiming] = field(default_factory=list)
    journal: Journal | None = None

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Step]:
        """A stage: a live bar on a terminal (plain lines elsewhere), and a line with the time when it ends."""
        step = Step(self, name, total)
        step.start()
        try:
            yield step
        except BaseException as error:
            step.stop("failed" if isinstance(error, Exception) else "interrupted")
            raise
        step.stop("cached" if step.cached else "done")

    def line(self, text: str) -> None:
        """A line for every reader."""
        write_line(self.stream, text)
        flush(self.stream)

    def note(self, text: str) -> None:
        """A line for readers who asked for more (`-v`)."""
        if self.verbose and not self.quiet:
            self.line(f"    {text}")

    def say(self, text: str) -> None:
        """A line below a stage, of what nobody may miss."""
        if not self.quiet:
            self.line(f"    {text}")

    def say_dashboard(self, address: str | None) -> None:
        """Where a browser sees what a cluster does; None says nothing. Dask draws it by bokeh alone."""
        if address is not None and not self.quiet:
            needs = "" if find_spec("bokeh") else f" (needs bokeh: {install_command('dask')})"
            self.line(f"  dashboard of Dask: {address}{needs}")


class Step:
    """A running stage. `advance` moves the bar; `cached` and `detail` show in its final line."""

    def __init__(self, progress: Progress, name: str, total: int | None) -> None:
        self._progress, self._name, self._total = progress, name, total
        self._done = self._skipped = 0
        self._began = self._said = 0.0
        self._stop_live: Callable[[], None] | None = None
        self._advance_live: Callable[[int], None] | None = None
        self._describe_live: Callable[[str], None] | None = None
        self.cached = False
        self.detail = ""

    def start(self) -> None:
        """Begin; shows a live bar where stderr is a terminal."""
        self._began = self._said = time.perf_counter()
        if self._progress.journal is not None:
            self._progress.journal.add(StageEvent(self._name, "running"))
        if self._progress.quiet or self._progress.stream is None or not self._progress.stream.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        rate = TextColumn("{task.fields[rate]}", markup=False)
        extra = [BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn()] if self._total else []
        bar = Bar(*columns, *extra, console=Console(file=self._progress.stream), transient=True)
        task = bar.add_task(visible(self._name), total=self._total, rate="")
        bar.start()
        self._stop_live = bar.stop
        self._advance_live = lambda count: bar.update(task, advance=count, rate=f"{self._rate():.1f}/s")
        self._describe_live = lambda text: bar.update(task, description=visible(text))

    def advance(self, count: int = 1) -> None:
        """Count work done. Where there is no live bar, long work says every while how far it is."""
        self._done += count
        if self._advance_live is not None:
            self._advance_live(count)
        elif self._total and not self._progress.quiet and time.perf_counter() - self._said >= _SAY_SECONDS:
            self._said = time.perf_counter()
            left = (self._total - self._done) / max(self._rate(), 1e-9)
            done = f"{self._done} of {self._total}, {self._rate():.1f}/s, {left:.0f} s left"
            self._progress.line(f"  {self._name:<12} {done}")

    def skip(self, count: int) -> None:
        """Count work that is done already, by a run before: it says nothing of the rate."""
        self._skipped += count
        self._done += count
        if self._advance_live is not None:
            self._advance_live(count)

    def _rate(self) -> float:
        """Work done a second, on average."""
        return (self._done - self._skipped) / max(time.perf_counter() - self._began, 1e-9)

    def say(self, text: str) -> None:
        """What it is about just now, beside the live bar; for stages whose length is not known beforehand.

        Where there is no live bar, long work says so every while.
        """
        if self._describe_live is not None:
            self._describe_live(f"{self._name}: {text}")
        elif not self._progress.quiet and time.perf_counter() - self._said >= _SAY_SECONDS:
            self._said = time.perf_counter()
            self._progress.line(f"  {self._name:<12} {text}")

    def round(self, number: int, rounds: int) -> None:
        """The round that begins, from 1; from the second on with the time left, as rounds take about as long."""
        seconds = (time.perf_counter() - self._began) * (rounds - number + 1) / max(number - 1, 1)
        self.say(f"{number}/{rounds}" + (f", about {seconds:.0f} s left" if number > 1 else ""))

    def stop(self, end: StageEnd) -> None:
        """End; writes the final line."""
        if self._stop_live is not None:
            self._stop_live()
        seconds = time.perf_counter() - self._began
        self._progress.timings.append(StageTiming(self._name, seconds, self.cached))
        if self._progress.journal is not None:
            state: StageState = "failed" if end == "interrupted" else end
            self._progress.journal.add(StageEvent(self._name, state, round(seconds, 3), self.detail))
        if self._progress.quiet:
            return
        mark = {"done": f"{seconds:6.2f} s", "failed": "FAILED"}.get(end, end)
        detail = f"  {self.detail}" if self.detail and end in ("done", "cached") else ""
        gap = max(1, _COLUMNS - len(self._name) - len(mark))  # a long name takes from the gap, the marks stay in line
        self._progress.line(f"  {self._name}{' ' * gap}{mark}{detail}")
