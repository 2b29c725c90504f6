"""Every write, creation and renaming of staging, cache and package fails once; of a whole run, some."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nnkit.c.host_compiler import host_compiler

ROOT = Path(__file__).resolve().parents[2]

if sys.platform != "linux" or host_compiler() is None:
    pytest.skip("needs Linux and a C compiler", allow_module_level=True)


@pytest.mark.parametrize(
    ("scenarios", "options"),
    [(["staging", "cache", "package", "extract"], ["--every", "1"]), (["run"], ["--every", "6", "--in-turn"])],
)
def test_the_last_good_result_survives_every_fault(scenarios: list[str], options: list[str]) -> None:
    command = [sys.executable, "-m", "fuzz.faults", *scenarios, *options, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["scenario"] for row in rows] == scenarios
    assert all(row["findings"] == 0 and row["faults"] >= 9 for row in rows)
