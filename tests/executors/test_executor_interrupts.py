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
            list(executor.map(executor_jobs.wait_for_the_end, sys.argv[2], [0, 1]))
    except KeyboardInterrupt:
        sys.exit(130)
"""
_MOST_SECONDS = 120  # of a machine that is very busy; nothing waits so long where all is well


@pytest.mark.skipif(sys.platform == "win32", reason="has no process groups")
@pytest.mark.parametrize("name", ["local", "dask"])
def test_an_interrupt_ends_what_runs_and_workers_write_nothing(name: str, tmp_path: Path) -> None:
    if name == "dask":
        pytest.importorskip("distributed")
    script = tmp_path / "main.py"
    script.write_text(MAIN)
    process = subprocess.Popen(
        [sys.executable, str(script), str(Path(__file__).parent), str(tmp_path), name],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a process group of its own, as a terminal makes it
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        until = time.monotonic() + _MOST_SECONDS
        while len(list(tmp_path.glob("running_*"))) < 2:
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=_MOST_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, errors) == (130, "")
    if name == "local":
        assert len(list(tmp_path.glob("cleaned_*"))) == 2
