"""Objects that are made once: the same bytes are not compiled again, other bytes are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from nnkit.boards.objects import compile_object
from nnkit.errors import ToolError


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """gcc, which writes a line for every time that it is called."""
    script = tmp_path / "counted-gcc"
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec {shutil.which("gcc")} "$@"\n')
    script.chmod(0o755)
    return script


def calls(folder: Path) -> int:
    log = folder / "calls"
    return len(log.read_text().splitlines()) if log.exists() else 0


def artifact(folder: Path, header: str = "#define VALUE 3\n") -> Path:
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "value.h").write_text(header)
    (folder / "code.c").write_text('#include "inner/value.h"\nint value(void);\nint value(void) { return VALUE; }\n')
    return folder


def answer(folder: Path, obj: Path) -> int:
    (folder / "main.c").write_text("int value(void);\nint main(void) { return value(); }\n")
    subprocess.run(["gcc", "-o", folder / "program", folder / "main.c", obj], check=True)
    return subprocess.run([folder / "program"], check=False).returncode


def test_the_same_bytes_are_compiled_once_wherever_they_lie(tmp_path: Path, compiler: Path) -> None:
    for number in range(2):
        folder = artifact(tmp_path / str(number))
        command = [str(compiler), "-O1", "-fcallgraph-info=su"]
        compile_object(command, [folder], folder / "code.c", folder / "code.o")
        assert answer(folder, folder / "code.o") == 3
        assert "value" in (folder / "code.ci").read_text()
    assert calls(tmp_path) == 1


def test_another_header_source_or_flag_is_compiled(tmp_path: Path, compiler: Path) -> None:
    first = artifact(tmp_path / "first")
    compile_object([str(compiler)], [first], first / "code.c", first / "code.o")
    other = artifact(tmp_path / "other", "#define VALUE 4\n")
    compile_object([str(compiler)], [other], other / "code.c", other / "code.o")
    assert answer(other, other / "code.o") == 4
    compile_object([str(compiler), "-O1"], [other], other / "code.c", other / "code.o")
    (other / "code.c").write_text("int value(void);\nint value(void) { return 5; }\n")
    compile_object([str(compiler), "-O1"], [other], other / "code.c", other / "code.o")
    assert answer(other, other / "code.o") == 5
    assert calls(tmp_path) == 4


def test_what_fails_is_told_each_time(tmp_path: Path, compiler: Path) -> None:
    folder = artifact(tmp_path / "bad")
    (folder / "code.c").write_text("int value(void) { return nothing; }\n")
    for _ in range(2):
        with pytest.raises(ToolError, match="nothing"):
            compile_object([str(compiler)], [folder], folder / "code.c", folder / "code.o")
    assert calls(tmp_path) == 2
