"""From a model file and a folder of pictures to a verified build, without writing YAML."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import onnx
import pytest
from nnkit_command import run_nnkit
from small_project import write_project

from tests.end_to_end.networks import squeezenet


def nnkit(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_nnkit(*arguments, cwd=cwd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`net.onnx` and pictures in `images`, nothing else."""
    write_project(tmp_path, images=4).unlink()
    return tmp_path


def test_the_drafted_recipe_runs_as_it_is(folder: Path) -> None:
    shutil.copytree(folder / "images", folder / "images/val")
    done = nnkit("init", "net.onnx", "--target", "gap8", "--images", "images", "--out", "made/net.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "nnkit run made/net.yaml" in done.stdout
    again = nnkit("init", "net.onnx", "--out", "made/net.yaml", cwd=folder)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    done = nnkit("run", "made/net.yaml", "--no-qemu", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "out/net/gap8/report.json").exists()


def test_a_model_runs_without_a_recipe_and_leaves_one(folder: Path) -> None:
    command = ("run", "net.onnx", "--target", "onnx_qdq", "--images", "images")
    for _ in range(2):  # the second time by the recipe that is there
        done = nnkit(*command, cwd=folder)
        assert done.returncode == 0, done.stderr
    recipe = folder / "out/net.yaml"
    recipe.write_text(recipe.read_text().replace("0.99", "0.98"))
    done = nnkit(*command, cwd=folder)
    assert (done.returncode, "nnkit run out/net.yaml" in done.stderr) == (2, True)
    assert nnkit("run", "out/net.yaml", cwd=folder).returncode == 0  # the remedy
    recipe.write_bytes(b"\xff")
    done = nnkit(*command, cwd=folder)
    assert (done.returncode, "remove out/net.yaml" in done.stderr) == (2, True)


def test_sizes_that_the_model_leaves_open_are_given_on_the_command_line(folder: Path) -> None:
    model = squeezenet(folder / "net.onnx")
    loaded = onnx.load(model)
    for axis in (2, 3):
        loaded.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"side{axis}"
    onnx.save(loaded, folder / "net.onnx")
    done = nnkit("init", "net.onnx", cwd=folder)
    assert done.returncode == 2
    assert "--shape x=1x1x224x224" in done.stderr
    for command in ("check", "plan"):
        given = (command, "net.onnx", "-t", "onnx_qdq", "--images", "images")
        done = nnkit(*given, cwd=folder)
        assert (done.returncode, "--shape x=1x1x224x224" in done.stderr) == (2, True)
        assert nnkit(*given, "--shape", "x=1x1x40x40", cwd=folder).returncode == 0, "as it was proposed"
    done = nnkit("init", "net.onnx", "--shape", "x=1x1x40x40", "--images", "images", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert nnkit("check", "recipe.yaml", cwd=folder).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("run", "net.onnx", "--target", "gap8"), "--images DIR"),
        (("init", "net.pt"), "torch.onnx.export"),
        (("init", "net.keras"), "format='onnx'"),
        (("init", "net.onnx", "--target", "gap9"), "gap8"),
        (("init", "net.onnx", "--shape", "40x40"), "write NAME=1x3x224x224"),
        (("init", "net.onnx", "--images", "nowhere"), "name a folder with pictures"),
        (("init", "net.prototxt"), "put the weights beside it, as net.caffemodel"),
    ],
)
def test_mistakes_are_told_with_what_works(folder: Path, arguments: tuple[str, ...], remedy: str) -> None:
    done = nnkit(*arguments, cwd=folder)
    assert done.returncode == 2
    assert remedy in done.stderr
    assert not (folder / "recipe.yaml").exists()
