"""Progress: lines where nobody watches, a bar where somebody does, timings for `run.json`."""

from __future__ import annotations

import io
import time

import pytest

from nnkit.report.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_a_stage_with_its_time() -> None:
    stream = io.StringIO()
    progress = Progress(stream=stream)
    with progress.stage("import") as step:
        time.sleep(0.02)
        step.detail = "12 layers"
    with progress.stage("restructure") as step:
        step.cached = True
    first, second = stream.getvalue().splitlines()
    assert first.split() == ["import", first.split()[1], "s", "12", "layers"]
    assert float(first.split()[1]) >= 0.02
    assert second.split() == ["restructure", "cached"]
    assert [(t.name, t.cached) for t in progress.timings] == [("import", False), ("restructure", True)]
    assert 0.02 <= progress.timings[0].seconds < 5


@pytest.mark.parametrize(("problem", "mark"), [(ValueError, "FAILED"), (KeyboardInterrupt, "interrupted")])
def test_a_stage_that_ends_early_says_how_and_lets_the_error_through(problem: type[BaseException], mark: str) -> None:
    stream = io.StringIO()
    progress = Progress(stream=stream)

    def fail() -> None:
        with progress.stage("plan") as step:
            step.detail = "half done"
            raise problem

    with pytest.raises(problem):
        fail()
    assert stream.getvalue().split() == ["plan", mark]
    assert [t.name for t in progress.timings] == ["plan"]


def test_quiet_writes_nothing_and_keeps_the_timings() -> None:
    stream = Terminal()
    progress = Progress(quiet=True, verbose=True, stream=stream)
    with progress.stage("import", 3) as step:
        step.advance()
    progress.note("more")
    assert stream.getvalue() == ""
    assert len(progress.timings) == 1


def test_notes_are_for_those_who_ask() -> None:
    plain, wordy = io.StringIO(), io.StringIO()
    Progress(stream=plain).note("an initializer was renamed")
    Progress(stream=wordy, verbose=True).note("an initializer was renamed")
    assert plain.getvalue() == ""
    assert wordy.getvalue() == "    an initializer was renamed\n"


def test_a_terminal_gets_a_bar_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Progress(stream=stream).stage("calibrate", 2) as step:
        step.advance()
        time.sleep(0.15)  # the bar is drawn ten times a second
        step.advance()
    shown = stream.getvalue()
    assert "1/2" in shown
    assert "calibrate" in shown.splitlines()[-1]
    assert shown.endswith(" s\n")


def test_without_a_terminal_there_is_no_bar() -> None:
    stream = io.StringIO()
    with Progress(stream=stream).stage("calibrate", 2) as step:
        step.advance(2)
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_what_a_run_before_has_done_counts_as_done_and_not_for_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("nnkit.report.progress.time.perf_counter", lambda: now)
    stream = io.StringIO()
    with Progress(stream=stream).stage("calibrate", 1000) as step:
        step.skip(900)
        now = 120.0
        step.advance(40)  # 2 a second: 30 s for the other 60
        assert stream.getvalue() == "  calibrate    940 of 1000, 2.0/s, 30 s left\n"


@pytest.mark.parametrize(("bokeh", "needs"), [(object(), False), (None, True)])
def test_the_dashboards_address_comes_with_what_draws_it(
    bokeh: object, needs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnkit.report.progress.find_spec", lambda name: bokeh)
    stream = io.StringIO()
    Progress(stream=stream).say_dashboard("http://127.0.0.1:1/status")
    assert "dashboard of Dask: http://127.0.0.1:1/status" in stream.getvalue()
    assert ("(needs bokeh: " in stream.getvalue()) == needs
    assert ("[dask]" in stream.getvalue()) == needs


def test_rounds_are_told_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 20.0, 20.0, 20.0, 55.0, 55.0, 55.0, 100.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(seconds))
    stream = io.StringIO()
    with Progress(stream=stream).stage("tune ranges") as step:
        step.round(1, 4)
        step.round(2, 4)  # at 55 s the first is done
    first, second, end = stream.getvalue().splitlines()
    assert (first, second) == ("  tune ranges  1/4", "  tune ranges  2/4, about 165 s left")
    assert end.split()[-2] == "100.00"
