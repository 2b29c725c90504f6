"""Output for people: escaped in one place, and what happens where nobody reads it or it has no room."""

from __future__ import annotations

import ast
import io
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from nnkit_command import run_nnkit
from onnx import TensorProto, helper
from small_project import RECIPE, write_project

from nnkit.errors import UserFileError
from nnkit.failures import write_error, write_traceback
from nnkit.package import Manifest, write_archive
from nnkit.report.progress import Progress
from nnkit.terminal import Coloured, flush, print_json_text, print_line, print_lines, write_line

REPOSITORY = Path(__file__).resolve().parents[1]
EVIL = "x\x1b[2K\r\x07\x9b\u202e[red][link=http://evil]\nerror: forged\n  fix: run evil"
SHOWN = r"x\x1b[2K\r\x07\x9b\u202e[red][link=http://evil]\nerror: forged\n  fix: run evil"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_one_line_and_colour_is_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    write_line(stream, f"a {EVIL} ", Coloured(EVIL, "red"))
    assert stream.getvalue() == f"a {SHOWN} \x1b[1;31m{SHOWN}\x1b[0m\n"


def test_texts_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines("one\x1b\ntwo")
    print_json_text('{"a": "\u202e\x9b"}')
    assert capsys.readouterr().out == 'one\\x1b\ntwo\n{"a": "\\u202e\\u009b"}\n'


def test_an_error_and_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    write_error(str(UserFileError(f"a {EVIL}", where=EVIL, remedy="mend it")), "NK221")
    write_error(EVIL, "NK221")
    told = capsys.readouterr().err
    assert told == (
        f"error: {SHOWN}: a {SHOWN}\n  fix: mend it\n  more: nnkit explain NK221\n"
        f"error: {SHOWN}\n  more: nnkit explain NK221\n"
    )


def test_a_traceback_has_no_line_like_ours() -> None:
    stream = io.StringIO()
    try:
        raise ValueError(EVIL) from KeyError(EVIL)
    except ValueError as error:
        write_traceback(error, stream)
    lines = stream.getvalue().split("\n")
    assert lines[0].startswith("KeyError: ")
    assert any(line.startswith(r"ValueError: x\x1b[2K\r\x07\x9b\u202e") for line in lines)
    assert not any(line.startswith(("error:", "fix:")) or "\x1b" in line for line in lines)


@pytest.mark.parametrize("terminal", [False, True])
def test_progress(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal Rich draws it, whose markup a name could write: it would colour, link, or end the program."""
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal() if terminal else io.StringIO()
    progress = Progress(verbose=True, stream=stream)
    with progress.stage(f"{EVIL}[/nothing]", 2) as step:
        step.say(EVIL)
        step.advance(2)
        step.detail = EVIL
        time.sleep(0.15 if terminal else 0.0)
    progress.note(EVIL)
    written = stream.getvalue()
    for raw in ("\x07", "\x9b", "\u202e", "\nerror:", "\n  fix:"):
        assert raw not in written
    assert written.endswith(f"    {SHOWN}\n")
    assert not terminal or "[link=http://evil]" in written.split("FAILED")[0]


def _network(path: Path, name: str) -> None:
    """One layer with weights that are not numbers, called `name`."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", f"{name}_w"], [f"{name}_out"], name=name)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 40, 40])],
        [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [1, 1, 40, 40])],
        [helper.make_tensor(f"{name}_w", TensorProto.FLOAT, [1], [float("nan")])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_names_of_networks_files_recipes_and_packages(tmp_path: Path) -> None:
    """Whatever holds them, and whichever command tells of it."""
    write_project(tmp_path)
    bad = tmp_path / f"{EVIL.replace('/', '')}.yaml"
    bad.write_text(RECIPE.replace("gap8: {}", 'gap8: {}\n  "y\\e[31m\\x07\\r\\u202e": {}'))
    _network(tmp_path / "evil.onnx", EVIL)
    (tmp_path / "evil.yaml").write_text(RECIPE.replace("net.onnx", "evil.onnx"))
    fields = {
        "version": "1",
        "target": "gap8",
        "status": "ok",
        "nnkit": EVIL,
        "recipe": {"release": {"notes": EVIL}},
        "tools": {},
    }
    tensors = [{"name": EVIL, "shape": [1], "format": EVIL}]
    more = {"memory": {EVIL: {}}, "accuracy": {}, "inputs": tensors, "outputs": tensors}
    package = write_archive({"artifact/a": b"x"}, Manifest(name="evil", **fields, **more), tmp_path / "evil.nnpkg")  # type: ignore[arg-type]
    np.save(tmp_path / f"{EVIL.replace('/', '')}.npy", np.zeros(3))
    evil_file = tmp_path / f"{EVIL.replace('/', '')}.npy"
    for words in (
        ["check", bad],
        ["check", bad, "--debug"],
        ["run", tmp_path / "evil.yaml", "--no-cache", "--out", tmp_path / "out"],
        ["run", tmp_path / "evil.yaml", "--no-cache", "--out", tmp_path / "out", "--debug"],
        ["plan", tmp_path / "evil.yaml", "--no-cache"],
        ["package", "inspect", package],
        ["package", "inspect", package, "--json"],
        ["compare", evil_file, evil_file],
        ["explain", EVIL],
        [EVIL],
        ["check", f"--{EVIL}"],
    ):
        done = run_nnkit(*words, cwd=tmp_path)
        told = done.stdout + done.stderr
        assert "x1b" in told or "u001b" in told, (words, told)
        for raw in ("\x1b", "\x07", "\r", "\x9b", "\u202e", "\nerror: forged", "\n  fix: run evil"):
            assert raw not in told, (words, raw, told)


OTHER_OUTPUT = {
    "nnkit/terminal.py": "the one place",
    "nnkit/error_codes.py": "a page of the documentation, of constants",
    "nnkit/recipe/reference.py": "a page of the documentation, of constants",
    "nnkit/rewrite/documentation.py": "a page of the documentation, of constants",
    "nnkit/report/progress.py": "Rich's bar, whose texts are made visible",
}
"""Files that write to an output otherwise than by nnkit.terminal, and why they may."""


def _outputs(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = ast.unparse(node.func)
            last = function.rpartition(".")[2]
            if (
                function in ("print", "typer.echo", "typer.secho", "warnings.warn", "Console")
                or last in ("print_exc", "print_exception", "print_stack")
                or function.endswith(("stdout.write", "stderr.write", "stream.write", "console.print", ".show"))
                or (function == "os.write" and ast.unparse(node.args[0]) in ("1", "2"))
            ):
                yield node


FILES = {"nnkit/package/archive.py", "nnkit/output_file.py", "nnkit/graph/weights_aside.py"}
"""Files whose streams are files."""


def test_nothing_else_writes_for_people() -> None:
    found = {
        path.relative_to(REPOSITORY).as_posix()
        for root in ("nnkit", "targets")
        for path in (REPOSITORY / root).rglob("*.py")
        if any(_outputs(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found - FILES == set(OTHER_OUTPUT)


def shell(command: str, *words: object) -> subprocess.CompletedProcess[str]:
    """A command line of the shell in which NNKIT stands for the command."""
    nnkit = shlex.join([sys.executable, "-m", "nnkit", *map(str, words)])
    line = ["bash", "-o", "pipefail", "-c", command.replace("NNKIT", nnkit)]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tensors")
    np.savez(folder / "a.npz", **{f"t{index}": np.zeros(3) for index in range(2000)})
    np.savez(folder / "b.npz", **{f"t{index}": np.ones(3) for index in range(2000)})
    return folder / "a.npz", folder / "b.npz"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [["explain"], ["explain", "--json"], ["--help"], ["explain", "NK221", "--debug"]])
def test_a_full_output_is_told_and_is_no_bug(words: list[str]) -> None:
    done = shell("NNKIT > /dev/full", *words)
    assert "bug in nnkit" not in done.stderr
    assert "No space left on device" in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == 2 or "--debug" in words


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_and_closed_outputs_keep_the_exit_code_of_a_failure(tensors: tuple[Path, Path]) -> None:
    """Of a comparison that finds differences, whoever reads how many."""
    first, second = tensors
    for command in ("NNKIT | true", "NNKIT >&-", "NNKIT > /dev/null 2> /dev/full", "NNKIT > /dev/null 2>&-"):
        done = shell(command, "compare", first, second)
        assert done.returncode == 1, (command, done)
        assert "bug" not in done.stderr
        assert "Exception ignored" not in done.stderr
        assert shell(command, "compare", first, first).returncode == 0, command


def test_a_file_that_is_opened_does_not_get_the_number_of_a_closed_output(tmp_path: Path) -> None:
    """What a program prints, or a library in C, would go into that file."""
    code = "from nnkit.terminal import open_closed_outputs; import os; open_closed_outputs()\n"
    code += "print(os.open(os.devnull, 0), file=open('number', 'w'))"
    line = f"{shlex.join([sys.executable, '-c', code])} <&- >&- 2>&-"
    subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True, timeout=60)
    assert int((tmp_path / "number").read_text()) > 2


def test_an_output_in_another_encoding_shows_escapes() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    write_line(stream, "größe")
    flush(stream)
    assert stream.buffer.getvalue() == b"gr\\xf6\\xdfe\n"  # type: ignore[attr-defined]


def test_a_disk_that_fails_under_standard_output_is_the_user_s(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, os.strerror(28))

    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(UserFileError, match="the result cannot be written: No space left") as caught:
        print_line("result")
    assert caught.value.code == "NK223"
    monkeypatch.setattr(sys, "stderr", Full())
    write_error("nobody reads it", "NK221")
