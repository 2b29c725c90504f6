"""Fixtures for all tests: the folder of real networks and images, which is not part of the project."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("NNKIT_SHARED") or REPOSITORY.parent / "shared")

# A shell that starts the tests in the background lets them ignore Ctrl-C; the commands that they start must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines differ in speed, and a compiler or an emulator takes its time: no deadline for an example.
settings.register_profile("nnkit", deadline=None)
settings.load_profile("nnkit")


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of real networks and images: NNKIT_SHARED, or `shared` beside the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"no real data: {SHARED} does not exist (set NNKIT_SHARED)")
    return SHARED.resolve()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI with the real data at hand, a skipped test is a failure: it would hide what was not tested."""
    report = yield
    if _nothing_may_skip() and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but nothing may be skipped in CI: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for whole files that skip themselves."""
    report = yield
    if _nothing_may_skip() and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, but nothing may be skipped in CI: {report.longrepr}"
    return report


def _nothing_may_skip() -> bool:
    return os.environ.get("CI", "").lower() == "true" and SHARED.is_dir()
