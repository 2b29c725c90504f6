"""A machine without a compiler: a build that nothing has run is never `ok`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_project import RECIPE, write_project

from tests.end_to_end.conftest import Command

NO_TOOLS: dict[str, str | None] = {"PATH": "/nowhere", "CC": None}


def with_require(names: str) -> str:
    return RECIPE.replace("verify: {gates:", f"verify: {{require: {names}, gates:")


def test_without_a_compiler_status_exit_code_and_package_say_unproven(tmp_path: Path, nnkit: Command) -> None:
    write_project(tmp_path)
    done = nnkit("run", "recipe.yaml", env=NO_TOOLS)
    assert done.code == 6
    assert "UNPROVEN" in done.err
    assert "host: not run: no C compiler" in done.err
    build = tmp_path / "out/small/gap8"
    report = json.loads((build / "report.json").read_text())
    assert report["status"] == "unproven"
    assert {entry["contract"] for entry in report["verify"]["program_vs_artifact"]} == {"not_run"}
    package = next(build.glob("*.nnpkg"))
    assert "status  UNPROVEN" in nnkit("package", "inspect", package).out
    assert nnkit("package", "inspect", package, "--json").json()["status"] == "unproven"
    assert "UNPROVEN" in nnkit("package", "verify", package).out


def test_a_sweep_ends_with_the_same_code(tmp_path: Path, nnkit: Command) -> None:
    write_project(tmp_path)
    (tmp_path / "other.yaml").write_text(RECIPE.replace("name: small", "name: other"))
    done = nnkit("run", "recipe.yaml", "other.yaml", env=NO_TOOLS)
    assert done.code == 6
    assert "unproven" in done.out


def test_a_required_runner_that_cannot_run_fails_the_build(tmp_path: Path, nnkit: Command) -> None:
    write_project(tmp_path, with_require("[host, rv32]"))
    done = nnkit("run", "recipe.yaml", "--no-qemu")
    assert done.code == 1
    assert "rv32: required by verify.require, but not run: skipped by --no-qemu" in done.err
    build = tmp_path / "out/small/gap8.failed"
    report = json.loads((build / "report.json").read_text())
    assert report["status"] == "gate_failed"
    host, rv32 = report["verify"]["required"]
    assert (host, rv32["ran"]) == ({"how": "host", "ran": True}, False)
    assert not list(build.glob("*.nnpkg"))


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_runner_that_no_target_has_is_refused_with_its_place(tmp_path: Path, nnkit: Command, command: str) -> None:
    write_project(tmp_path, with_require("[hots]"))
    done = nnkit(command, "recipe.yaml")
    assert done.code == 2
    assert "recipe.yaml:11:20:" in done.err
    assert "did you mean 'host'?" in done.err
