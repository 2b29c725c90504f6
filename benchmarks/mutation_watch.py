"""A plugin for pytest: ends the tests of one mutant after their share of the processor, and tells what they found.

`python -m pytest -p benchmarks.mutation_watch` with two variables: `NNKIT_MUTANT_SECONDS` of the processor for all
tests together, and `NNKIT_MUTANT_FOUND`, the file that gets the number of tests that passed, the first one that
failed, and whether the time was over before the last one. Seconds are the processor's, so that the outcome is the
same on a busy machine.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

TEST_SECONDS = 200
"""Of the processor, for one test; no test of the rooms takes a tenth. A loop that no longer ends is noticed, too."""

_found: dict[str, Any] = {"passed": 0, "failed": "", "over": False}


class EndlessError(BaseException):
    """A test that does not end; no `except Exception` of what it tests holds it up."""


def _end(signum: int, frame: FrameType | None) -> None:
    raise EndlessError


def _worked_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The alarm of one test."""
    signal.signal(signal.SIGPROF, _end)
    signal.setitimer(signal.ITIMER_PROF, TEST_SECONDS)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """No alarm between tests."""
    signal.setitimer(signal.ITIMER_PROF, 0)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A module that can no longer be imported is a failure of its file."""
    if report.failed and not _found["failed"]:
        _found["failed"] = report.nodeid


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """What failed first, with its set-up and its end."""
    if report.failed and not _found["failed"]:
        _found["failed"] = report.nodeid
    elif report.when == "call":
        _found["passed"] += report.passed


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Before each test: is there time for one more?"""
    if _worked_seconds() > float(os.environ["NNKIT_MUTANT_SECONDS"]):
        _found["over"] = True
        pytest.exit("time is over", 0)


def pytest_sessionfinish() -> None:
    """Tell; without this file the tests were ended from outside."""
    Path(os.environ["NNKIT_MUTANT_FOUND"]).write_text(json.dumps(_found))
