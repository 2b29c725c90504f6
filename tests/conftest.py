"""Fixtures for all tests: the folder of real networks and images, which is not part of the project."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import warm_import_worker
from hypothesis import settings

from nnkit.children.search import leave_out_relative

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("NNKIT_SHARED") or REPOSITORY.parent / "shared")

NOT_INSTALLABLE = "CI cannot install it: "
"""Begins the reason of a test that is left out where something is missing that no test command can bring."""

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


@pytest.fixture(scope="session", autouse=True)
def no_libraries_of_the_current_folder() -> None:
    """`import cv2` lets children look for libraries in their working folder, which tests fill with hostile files."""
    leave_out_relative(os.environ)


@pytest.fixture(scope="session", autouse=True)
def import_worker() -> Iterator[None]:
    """Imports run their tools in a child of a process that has loaded them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nnkit.importers.tool_process.run_tool", warm_import_worker.run_warm)
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium. One for all tests of a process: Playwright starts only once in it."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on PATH")
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        opened = playwright.chromium.launch(executable_path=chromium, args=options)
        yield opened
        opened.close()


class _FailuresAtOnce:
    """Tells of each failure when it happens: a run that is ended from outside has no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """As `pytest` calls it, in the process that prints."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\n{report.when} of {report.nodeid} failed:\n{report.longreprtext}")


def pytest_configure(config: pytest.Config) -> None:
    """Where many processes test, failures are told by the one that prints."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailuresAtOnce(config))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI with the real data at hand, a skipped test is a failure: it would hide what was not tested."""
    report = yield
    if _nothing_may_skip() and report.skipped and not hasattr(report, "wasxfail") and not _excused(report):
        report.outcome = "failed"
        report.longrepr = f"skipped, but nothing may be skipped in CI: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for whole files that skip themselves."""
    report = yield
    if _nothing_may_skip() and report.skipped and not _excused(report):
        report.outcome = "failed"
        report.longrepr = f"skipped, but nothing may be skipped in CI: {report.longrepr}"
    return report


def _excused(report: pytest.TestReport | pytest.CollectReport) -> bool:
    """Whether what is missing cannot be installed by CI: no package brings it, or it is too heavy for an extra."""
    return NOT_INSTALLABLE in str(report.longrepr)


def _nothing_may_skip() -> bool:
    return os.environ.get("CI", "").lower() == "true" and SHARED.is_dir()
