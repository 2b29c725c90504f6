"""Children in a folder full of hostile files: none of them is opened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.hostile import AVAILABLE, Watch, fill
from nnkit.c.host_compiler import host_compiler
from nnkit.children.start import EVERYTHING, python_child, start
from nnkit.errors import ToolError
from nnkit.external_tool import run_tool

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="watches folders on Linux")


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """The current folder is hostile, and PATH and its like name it before all else."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    fill(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f":.:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", ".:")
    with Watch([folder]) as watching:
        yield watching
        assert watching.opened() == []


def test_the_watch_sees_what_is_imported_run_and_read(tmp_path: Path) -> None:
    fill(tmp_path)
    with Watch([tmp_path]) as watching:
        subprocess.run([sys.executable, "-c", "import typing"], cwd=tmp_path, stderr=subprocess.DEVNULL, check=False)
        assert f"{tmp_path}/typing.py" in watching.opened()
        assert watching.opened() == []
        subprocess.run([tmp_path / "gcc"], stderr=subprocess.DEVNULL, check=False)
        (tmp_path / "pip.conf").read_text()
        assert watching.opened() == [f"{tmp_path}/gcc", f"{tmp_path}/pip.conf"]


def test_a_python_child_imports_nothing_of_it(watch: Watch) -> None:
    command, environment = python_child("nnkit.importers.tool_worker", "/nowhere")
    assert "FileNotFoundError" in run_tool(command, environment=environment, timeout_s=60.0).errors
    with pytest.raises(ToolError, match="cannot be started"):
        run_tool(["./gcc", "x.c"], timeout_s=60.0)


def test_a_python_child_imports_nothing_of_the_folder_that_it_works_in(watch: Watch, tmp_path: Path) -> None:
    command, environment = python_child("nnkit.importers.tool_worker", "/nowhere", inherited=EVERYTHING)
    with start(command, folder=tmp_path / "hostile", environment=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"FileNotFoundError: [Errno 2] No such file or directory: '/nowhere" in process.stderr.read()


def test_a_compiler_is_not_given_programs_and_libraries_of_it(watch: Watch, tmp_path: Path) -> None:
    """gcc finds `as` on PATH, and its linker looks for libgcc_s.so.1 where it runs before all else."""
    compiler = host_compiler()
    assert compiler is not None
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return 7; }\n")
    binary = tmp_path / "program"
    run_tool([compiler, str(source), "-o", str(binary)], timeout_s=60.0).checked(remedy="")
    assert run_tool([str(binary)], timeout_s=60.0).code == 7


def test_variables_of_a_python_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("A_SECRET", "x")
    monkeypatch.setenv("PYTHONSTARTUP", "y")
    monkeypatch.setenv("PYTHONPATH", f":{tmp_path}:relative")
    command, environment = python_child("json.tool", variables={"OMP_NUM_THREADS": "1"})
    assert "-P" in command
    assert environment["PYTHONPATH"].split(":")[0] == str(tmp_path)
    assert "relative" not in environment["PYTHONPATH"]
    assert environment["OMP_NUM_THREADS"] == "1"
    assert not {"A_SECRET", "PYTHONSTARTUP"} & set(environment)
    assert python_child("json.tool", inherited=EVERYTHING)[1]["A_SECRET"] == "x"


def test_without_pythonpath_a_child_of_an_installation_is_isolated() -> None:
    script = "import json; from nnkit.children.start import python_child; print(json.dumps(python_child('x')))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    command, variables = json.loads(done.stdout)
    assert command[:2] == [sys.executable, "-I"]
    assert "PYTHONPATH" not in variables
