"""`nnkit targets new NAME`: what it writes is found as a package is, and builds a release as it stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from nnkit_command import run_nnkit
from small_project import RECIPE, write_project

PLANNED = '        return plan_one_region(program, Region("ram", options.ram))\n'


def nnkit(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder / "nnkit_my_npu"), "NNKIT_CACHE": str(folder / "cache")}
    return run_nnkit(*arguments, cwd=folder, env=environment)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project for the new target, which is installed: its folder is on the path, with its entry points beside."""
    write_project(tmp_path, RECIPE.replace("gap8: {}", "my_npu: {}"))
    made = nnkit(tmp_path, "targets", "new", "my_npu")
    assert made.returncode == 0, made.stderr
    package = tmp_path / "nnkit_my_npu"
    described = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    information = package / "nnkit_my_npu-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {described['name']}\nVersion: 0.1.0\n")
    points = described["entry-points"]["nnkit.targets"]
    (information / "entry_points.txt").write_text(
        "[nnkit.targets]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
    )
    return tmp_path


def change(project: Path, before: str, after: str) -> None:
    path = project / "nnkit_my_npu/nnkit_my_npu/__init__.py"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_it_is_listed_and_builds_a_release(project: Path) -> None:
    shown = json.loads(nnkit(project, "targets", "show", "my_npu", "--json").stdout)
    assert set(shown["options"]) >= {"precision", "ram"}
    assert shown["limits"] == ["an output has at most 4,096 channels"]
    done = nnkit(project, "run", "recipe.yaml", "--set", "targets.my_npu.precision=int16")
    assert done.returncode == 6, done.stderr  # it has no runner yet
    folder = project / "out/small/my_npu"
    report = json.loads((folder / "report.json").read_text())
    assert report["status"] == "unproven"
    assert report["verify"]["float_vs_program"]["cosine"] > 0.99999
    listing = (folder / "artifact/listing.txt").read_text().splitlines()
    assert [line.split()[0] for line in listing] == [layer["name"] for layer in report["layers"]]
    assert (folder / "small-1.2.3-my_npu.nnpkg").is_file()
    done = nnkit(project, "run", "recipe.yaml", "--set", "targets.my_npu.ram=64")
    assert done.returncode == 4, done.stderr
    lint = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "118", project / "nnkit_my_npu"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert lint.returncode == 0, lint.stdout


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (PLANNED, "        return program.nothing\n", "the target plugin 'my_npu' failed: AttributeError"),
        (PLANNED, "        return None\n", "the target 'my_npu' gives NoneType from plan(), not MemoryPlan"),
        ("return INTEGER_FORM", 'return ("fc_to_conf",)', "the target 'my_npu' asks for a rewrite rule 'fc_to_conf'"),
        ("= DEFAULT_RULES", '= ("fc_to_conf",)', "the target 'my_npu' asks for a rewrite rule 'fc_to_conf'"),
    ],
    ids=["exception", "wrong type", "legalisation", "default rule"],
)
def test_a_mistake_of_the_plugin_is_told_as_one(before: str, after: str, said: str, project: Path) -> None:
    change(project, before, after)
    done = nnkit(project, "run", "recipe.yaml")
    assert done.returncode == 5, done.stderr
    assert said in done.stderr
    assert "plugin" in done.stderr
    assert "a bug in nnkit" not in done.stderr
    assert "Traceback" not in done.stderr
    assert "recipe.yaml:" not in done.stderr
    change(project, after, before)  # the remedy
    assert nnkit(project, "run", "recipe.yaml").returncode == 6


def test_names_that_no_target_can_have_are_refused_with_one_that_can(tmp_path: Path) -> None:
    done = nnkit(tmp_path, "targets", "new", "My-NPU")
    assert done.returncode == 2
    good = next(line for line in done.stderr.splitlines() if "  fix: " in line).rsplit(": ", 1)[1]
    assert nnkit(tmp_path, "targets", "new", good).returncode == 0
    again = nnkit(tmp_path, "targets", "new", good)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    assert "is installed" in nnkit(tmp_path, "targets", "new", "tpu").stderr
