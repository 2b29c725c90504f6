"""`--fix` corrects words alone, `--watch` runs again, and colour is for terminals."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small_project import RECIPE, write_project

from nnkit.commands.watch import watch

COMMAND = [sys.executable, "-m", "nnkit"]


def check(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "check", "recipe.yaml", *options], capture_output=True, text=True, check=False, cwd=folder
    )


def test_misspelt_words_are_corrected_and_nothing_else(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    right = RECIPE.replace("gap8: {}", "gap8: {precision: int8, restructure: ['default']}  # a comment\r")
    wrong = (
        right.replace("calibration:", "calibratoin:")
        .replace("gap8:", "gap9:")
        .replace("color: gray", 'color: "grey"')
        .replace("verify:", "verfy:")
        .replace("'default'", "'defualt'")
    )
    path.write_bytes(wrong.encode())
    before = check(tmp_path)
    assert before.returncode == 2
    done = check(tmp_path, "--fix")
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().decode() == right.replace("color: gray", 'color: "gray"')
    assert done.stderr.count("fixed recipe.yaml:") == 5
    assert "'calibratoin' is now 'calibration'" in done.stderr
    assert check(tmp_path, "--fix").stderr == ""


def test_what_has_no_answer_stays_and_is_told(tmp_path: Path) -> None:
    path = write_project(tmp_path, RECIPE.replace("color: gray", "color: 7").replace("name: small", "name: a/b"))
    text = path.read_text()
    done = check(tmp_path, "--fix")
    assert done.returncode == 2
    assert "2 problems" in done.stderr
    assert path.read_text() == text


def test_a_file_outside_the_recipe_s_folder_is_not_corrected(tmp_path: Path) -> None:
    """One that the recipe includes, by its path or through a link; one in a folder below is."""
    folder, mine = tmp_path / "sent", tmp_path / "mine.yaml"
    (folder / "below").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path)
    recipe, head = write_project(folder), RECIPE[: RECIPE.index("release:")]
    for name, said in ((mine, "unknown key 'versoin'"), ("../mine.yaml", "unknown key"), ("link/mine.yaml", "link")):
        recipe.write_text(f"{head}release: !include {name}\n")
        mine.write_text("versoin: 1.2.3\n")
        done = check(folder, "--fix")
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert mine.read_text() == "versoin: 1.2.3\n"
    recipe.write_text(f"{head}release: !include below/part.yaml\n")
    mine.rename(folder / "below/part.yaml")
    assert check(folder, "--fix").returncode == 0
    assert (folder / "below/part.yaml").read_text() == "version: 1.2.3\n"


_LONGEST_SILENCE_SECONDS = 120.0  # a check takes one or two: what is not said by then is never said


def lines_until(process: subprocess.Popen[bytes], wanted: bytes) -> bytes:
    """What the process writes until `wanted` has come; fails where it ends or says nothing more before."""
    assert process.stdout is not None
    seen = b""
    while wanted not in seen:
        assert select.select([process.stdout], [], [], _LONGEST_SILENCE_SECONDS)[0], seen
        chunk = os.read(process.stdout.fileno(), 4096)
        assert chunk, seen
        seen += chunk
    return seen


def saved(path: Path, text: str) -> None:
    """Writes a file as most editors do: beside it first, so that nobody reads half of it."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def test_a_file_that_is_still_being_written_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_project(tmp_path)
    texts = iter(["", RECIPE.replace("gray", "rgb"), None, KeyboardInterrupt])
    seen = []

    def looks(_seconds: float) -> None:
        text = next(texts)
        if text is KeyboardInterrupt:
            raise KeyboardInterrupt
        if text is not None:
            path.write_text(str(text))

    monkeypatch.setattr("nnkit.commands.watch.time.sleep", looks)
    with pytest.raises(KeyboardInterrupt):
        watch(path, lambda: seen.append(path.read_text()))
    assert seen == [RECIPE, RECIPE.replace("gray", "rgb")]


def test_it_runs_again_when_the_recipe_changes_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    with subprocess.Popen(
        [*COMMAND, "check", "recipe.yaml", "--watch"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path
    ) as process:
        assert b"recipe.yaml: valid" in lines_until(process, b"watching 2 files")
        saved(path, RECIPE.replace("cosine:", "cosin:"))
        assert b"unknown key 'cosin'" in lines_until(process, b"watching 1 file;")
        saved(path, RECIPE)
        assert b"recipe.yaml: valid" in lines_until(process, b"watching 2 files")
        (tmp_path / "net.onnx").write_bytes(b"")
        assert b"the model file is empty" in lines_until(process, b"watching 2 files")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def on_a_terminal(folder: Path, **environment: str) -> str:
    """What `nnkit check` of a wrong recipe writes to a terminal."""
    master, slave = pty.openpty()
    variables = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    with subprocess.Popen(
        [*COMMAND, "check", "nothing.yaml"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env={**variables, "TERM": "xterm", **environment},
    ) as process:
        os.close(slave)
        seen = b""
        while process.poll() is None or select.select([master], [], [], 0.2)[0]:
            try:
                seen += os.read(master, 4096) if select.select([master], [], [], 0.2)[0] else b""
            except OSError:
                break
    os.close(master)
    return seen.decode()


def test_colour_is_for_terminals_that_may_have_it(tmp_path: Path) -> None:
    assert "\x1b[1;31merror:\x1b[0m" in on_a_terminal(tmp_path)
    assert "\x1b[1;32mfix:\x1b[0m" in on_a_terminal(tmp_path)
    assert "\x1b[" not in on_a_terminal(tmp_path, NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(tmp_path, TERM="dumb")
    assert "\x1b[" not in check(tmp_path).stderr
