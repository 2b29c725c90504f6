"""Ctrl-C goes to every process of the command: work ends at once, parts clean up, and workers write nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

MAIN = """
import sys
sys.path.insert(0, sys.argv[1])
import executor_jobs
from nnkit.executors import ExecutorChoice, open_executor

if __name__ == "__main__":
    try:
        with open_executor(ExecutorChoice(sys.argv[3], workers=2), 2) as executor:
            for _ in executor.map(getattr(executor_jobs, sys.argv[4]), sys.argv[2], list(range(int(sys.argv[5])))):
                pass
    except KeyboardInterrupt:
        sys.exit(130)
"""
_MOST_SECONDS = 120  # of a machine that is very busy; nothing waits so long where all is well


if sys.platform == "win32":
    pytest.skip("has no process groups", allow_module_level=True)


@pytest.mark.parametrize("name", ["local", "dask"])
def test_an_interrupt_ends_what_runs_and_workers_write_nothing(name: str, tmp_path: Path) -> None:
    if name == "dask":
        pytest.importorskip("distributed")
    assert _interrupted(tmp_path, name, "wait_for_the_end", parts=2, until=2) == (130, "")
    if name == "local":
        assert len(list(tmp_path.glob("cleaned_*"))) == 2


def test_an_interrupt_while_a_large_result_is_sent(tmp_path: Path) -> None:
    """The process that is ended leaves a part of it in the pipe."""
    assert _interrupted(tmp_path, "local", "large", parts=200, until=6) == (130, "")


def _interrupted(folder: Path, executor: str, job: str, *, parts: int, until: int) -> tuple[int, str]:
    """Exit code and words of a process that is interrupted with its workers when so many parts have begun."""
    script = folder / "main.py"
    script.write_text(MAIN)
    process = subprocess.Popen(
        [sys.executable, str(script), str(Path(__file__).parent), str(folder), executor, job, str(parts)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a process group of its own, as a terminal makes it
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        end = time.monotonic() + _MOST_SECONDS
        while len(list(folder.glob("running_*"))) < until:
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < end
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=_MOST_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, errors
