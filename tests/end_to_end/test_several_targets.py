"""One recipe with several targets: each is tried, each has its result, and the exit code is the worst."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from nnkit_command import run_nnkit
from small_project import RECIPE, write_project

from nnkit.errors import ExitCode, worst


def run(folder: Path, targets: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    write_project(folder, RECIPE.replace("targets:\n  gap8: {}\n", targets))
    return run_nnkit("run", "recipe.yaml", "--no-qemu", *arguments, cwd=folder)


def test_a_target_that_fails_keeps_no_other_from_its_build(tmp_path: Path) -> None:
    done = run(tmp_path, "targets:\n  gap8: {memory: {l2: 2KiB}}\n  ansi_c: {}\n")
    assert done.returncode == ExitCode.MEMORY
    assert "1 of 2 builds did not pass; the others are done\ngap8: " in done.stderr
    assert "small for ansi_c: ok" in done.stdout
    assert (tmp_path / "out/small/ansi_c/report.json").exists()


@pytest.mark.parametrize("turned", [False, True])
def test_the_exit_code_is_the_worst_whatever_the_order(turned: bool, tmp_path: Path) -> None:
    lines = ["  gap8: {memory: {l2: 2KiB}}\n", "  gap8@bad: {calibration: {corrections: [float_inputs]}}\n"]
    done = run(tmp_path, "targets:\n" + "".join(reversed(lines) if turned else lines) + "  ansi_c: {}\n", "--json")
    assert done.returncode == ExitCode.USER
    results = {each["target"]: each for each in json.loads(done.stdout)}
    assert {key: each["status"] for key, each in results.items()} == {
        "gap8": "failed",
        "gap8@bad": "failed",
        "ansi_c": "ok",
    }
    assert (results["gap8"]["exit_code"], results["gap8@bad"]["exit_code"]) == (ExitCode.MEMORY, ExitCode.USER)


def test_from_good_to_bad() -> None:
    assert worst([]) == ExitCode.OK
    assert worst([ExitCode.OK, ExitCode.UNPROVEN]) == ExitCode.UNPROVEN
    assert worst([ExitCode.GATE_FAILED, ExitCode.UNPROVEN, ExitCode.MEMORY]) == ExitCode.MEMORY
    assert worst([ExitCode.INTERNAL, ExitCode.USER]) == ExitCode.INTERNAL
    assert all(worst([code, ExitCode.OK]) == code for code in ExitCode)
