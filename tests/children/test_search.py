"""The current folder is no place for programs, modules or plugins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.hostile import fill
from nnkit.c.host_compiler import host_compiler
from nnkit.children.search import found_program, leave_out_relative
from nnkit.target import installed_targets


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, full of programs, modules and a plugin."""
    folder = tmp_path / "hostile"
    (folder / "bin").mkdir(parents=True)
    fill(folder)
    (folder / "bin" / "gcc").symlink_to(folder / "gcc")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("before", ["", ".", "bin", "./bin", "bin:", ":."])
def test_a_program_of_the_current_folder_is_never_found(
    before: str, hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own" / "gcc"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{before}:{own.parent}")
    assert found_program("gcc") == str(own)
    monkeypatch.setenv("PATH", before)
    assert found_program("gcc") in (None, "/usr/bin/gcc", "/bin/gcc")
    assert found_program(str(own)) == str(own)


@pytest.mark.parametrize("name", ["./gcc", "bin/gcc", "../hostile/gcc"])
def test_a_relative_path_names_no_program(name: str, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(name).exists()
    assert found_program(name) is None
    monkeypatch.setenv("CC", name)
    assert host_compiler() is None


def test_lists_of_folders_lose_what_depends_on_the_working_folder() -> None:
    variables = {"PATH": ":/a:.:b:/c:", "LD_LIBRARY_PATH": ":", "PYTHONPATH": "x:/d", "CPATH": "."}
    leave_out_relative(variables)
    assert variables == {"PATH": "/a:/c", "PYTHONPATH": "/d", "CPATH": "."}
    variables = {"PATH": ".:"}
    leave_out_relative(variables)
    assert variables == {"PATH": os.defpath}


def test_metadata_beside_a_model_brings_no_plugin(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("")
    monkeypatch.syspath_prepend(str(hostile))
    targets = installed_targets()
    assert "gap8" in targets
    assert "evil" not in targets


def test_metadata_in_a_folder_that_pythonpath_names_does(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `pip install --target`."""
    monkeypatch.syspath_prepend(str(hostile))
    monkeypatch.setenv("PYTHONPATH", str(hostile))
    assert "evil" in installed_targets()


_SHOWN = """
import os, sys
sys.path[:0] = ["", "relative"]
from nnkit.children.search import settle
settle()
print("" in sys.path, "relative" in sys.path, os.getcwd() in sys.path, os.environ["PATH"], os.environ["NNKIT_CACHE"])
import nnkit.cli
"""


def test_the_command_forgets_the_folder_that_it_was_started_in(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('hostile')")
    environment = os.environ | {"PATH": ":/usr/bin", "NNKIT_CACHE": "cache"}
    done = subprocess.run(
        [sys.executable, "-c", _SHOWN], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False", "False", "/usr/bin", str(tmp_path / "cache")]


def test_python_m_nnkit_drops_the_folder_once_it_runs(tmp_path: Path) -> None:
    """What Python itself imports before that is not nnkit's to keep out."""
    for module in ("typer", "rich", "yaml", "pydantic", "nnkit_gap8", "nnkit_evil"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('hostile')\n")
    fill(tmp_path, keep=0.0)
    command = [sys.executable, "-m", "nnkit", "targets", "list"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "gap8" in done.stdout
    assert "evil" not in done.stdout
