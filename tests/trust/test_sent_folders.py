"""Links, pipes and devices in a build, or beside a recipe, that somebody sent: no command follows them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nnkit_command import run_nnkit
from small_project import RECIPE, make_build, write_project

from nnkit import pipeline
from nnkit.report.staging import staged_build


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    return pipeline.run(make_build(write_project(folder)), folder / "out").folder


@pytest.fixture
def build(made: Path, tmp_path: Path) -> Path:
    """A build that was sent, beside `mine`, a file of the user's."""
    (tmp_path / "mine").write_text("mine")
    return Path(shutil.copytree(made, tmp_path / "build"))


def refused(*words: object, cwd: Path, because: str) -> None:
    done = run_nnkit(*words, cwd=cwd)
    assert done.returncode == 2, done
    assert because in done.stderr
    assert "fix:" in done.stderr
    assert (cwd / "mine").read_text() == "mine"


COMMANDS: dict[str, Callable[[Path], list[object]]] = {
    "report": lambda build: ["report", build],
    "view": lambda build: ["view", build],
    "package": lambda build: ["package", "build", build],
    "simulate": lambda build: ["simulate", build, "--input", "x.npy", "--output", "result.npy"],
    "bench": lambda build: ["bench", build, "--on", "rv32imac"],
    "validate": lambda build: ["validate", build, "--port", "port"],
    "compare": lambda build: ["compare", build, build],
    "diagnose": lambda build: ["diagnose", build],
    "verify-wk": lambda build: ["verify-wk", build, "x.wk"],
    "table": lambda build: ["table", "convert", build, "ranges.yaml"],
    "pinned": lambda build: ["table", "convert", build, "formats.json", "--to", "pinned"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_takes_a_build_that_holds_a_link(build: Path, command: str) -> None:
    """In place of a file that it writes, of one that it reads, and deep below."""
    for place in ("report.html", "layers.csv", "artifact/weights.bin", "verify/more/deep"):
        path = build / place
        path.parent.mkdir(exist_ok=True)
        kept = path.read_bytes() if path.exists() else None
        path.unlink(missing_ok=True)
        path.symlink_to(build.parent / "mine")
        refused(*COMMANDS[command](build), cwd=build.parent, because=f"{path}: is a link to {build.parent / 'mine'}")
        path.unlink()
        if kept is not None:
            path.write_bytes(kept)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_waits_for_a_pipe_in_a_build(build: Path, command: str) -> None:
    (build / "verify/0_x_float.npy").unlink()
    os.mkfifo(build / "verify/0_x_float.npy")
    because = f"{build}/verify/0_x_float.npy: is a pipe or a device"
    refused(*COMMANDS[command](build), cwd=build.parent, because=because)


def test_another_name_of_a_file_of_the_user_s_is_not_written_through(build: Path) -> None:
    (build / "report.html").unlink()
    os.link(build.parent / "mine", build / "report.html")
    done = run_nnkit("report", build, cwd=build.parent)
    assert done.returncode == 0, done.stderr
    assert (build.parent / "mine").read_text() == "mine"
    assert "<html" in (build / "report.html").read_text(encoding="utf-8")


def test_a_result_is_not_written_through_a_link(build: Path) -> None:
    """Neither beside the build nor in it, where the folder on the way is the link."""
    shutil.copy(build / "verify/0_x_float.npy", build.parent / "x.npy")
    (build.parent / "result.npy").symlink_to("mine")
    words = ["simulate", build, "--input", "x.npy", "--output"]
    refused(*words, "result.npy", cwd=build.parent, because="result.npy: is a link to mine")
    (build.parent / "result.npy").unlink()
    done = run_nnkit(*words, "result.npy", cwd=build.parent)
    assert done.returncode == 0, done.stderr
    assert np.load(build.parent / "result.npy").size


def test_files_that_commands_write_are_not_links(build: Path) -> None:
    folder = build.parent
    (folder / "link").symlink_to("mine")
    (folder / "new").symlink_to("nothing")
    write_project(folder, RECIPE.replace("release:", "relase:"))
    (folder / "linked.yaml").symlink_to("recipe.yaml")
    before = (folder / "recipe.yaml").read_bytes()
    for words in (
        ["init", "net.onnx", "--images", "images", "--out", "new"],
        ["table", "convert", build / "calibration.yaml", "link"],
        ["package", "build", build, "--out", "link"],
        ["check", "linked.yaml", "--fix"],
    ):
        refused(*words, cwd=folder, because="is a link to ")
    assert (folder / "recipe.yaml").read_bytes() == before
    assert not (folder / "nothing").exists()


def test_links_in_the_output_folder_of_a_project_that_was_sent_are_not_followed(tmp_path: Path) -> None:
    """`out` itself, `out/<name>`, and the files that a sweep and a recipe for a model leave there."""
    write_project(tmp_path)
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    out = tmp_path / "out"
    out.symlink_to("elsewhere")
    refused("run", "recipe.yaml", cwd=tmp_path, because="out: is a link to elsewhere")
    out.unlink()
    out.mkdir()
    (out / "small").symlink_to("../elsewhere")
    for more in ([], ["--jobs", "2"]):
        refused("run", "recipe.yaml", *more, cwd=tmp_path, because="out/small: is a link to ../elsewhere")
    (out / "small").unlink()
    (out / "net.yaml").symlink_to("../none")
    refused("run", "net.onnx", "--images", "images", cwd=tmp_path, because="out/net.yaml: is a link to ../none")
    (out / "small").mkdir()
    for name in ("sweep.csv", "sweep.html"):
        (out / "small" / name).symlink_to("../../mine")
        refused("run", "recipe.yaml", "--jobs", "2", cwd=tmp_path, because=f"{name}: is a link to ../../mine")
        (out / "small" / name).unlink()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_an_output_folder_that_is_a_link_and_named_is_the_user_s(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").symlink_to("elsewhere")
    with staged_build(tmp_path / "out/net/gap8") as staged:
        staged.commit()
    assert (tmp_path / "elsewhere/net/gap8").is_dir()
