"""Killed runs: the last good build stays, nothing runs on, the next run succeeds and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("processes tell their variables on Linux", allow_module_level=True)

from fuzz import kills
from fuzz.interruption import INTERRUPTED

ROOT = Path(__file__).parents[2]


def test_two_kills(capsys: pytest.CaptureFixture[str]) -> None:
    assert kills.main(["--count", "2", "--in-a-row", "2", "--target", "gap8", "--seed", "5"]) == 0, (
        capsys.readouterr().err
    )


def processes_with(text: str) -> Iterator[str]:
    """Those whose variables have it; what has ended has none, and is not there."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if text.encode() in path.read_bytes():
                yield path.parent.name


@pytest.mark.parametrize("command", ["kills", "soak"])
def test_an_interrupted_command_ends_its_runs_and_leaves_nothing(command: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", f"fuzz.{command}", "--target", "onnx_qdq"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as run:
        while not list(tmp_path.rglob("stderr.txt")):  # a run was started
            assert run.poll() is None
            time.sleep(0.02)
        run.send_signal(signal.SIGTERM)
        said = run.communicate()[1]
    assert (run.returncode, said) == (INTERRUPTED, "interrupted\n")
    assert list(processes_with(str(tmp_path))) == []
    assert list(tmp_path.iterdir()) == []
