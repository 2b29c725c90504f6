"""A network from TensorFlow, whose input has its channels last: each refusal's remedy, followed, leads to a build."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import onnx
import onnxruntime
import pytest
from nnie_networks import Net
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.errors import NnkitError

RECIPE = """\
nnkit: 1
name: net
model:
  path: net.onnx
  inputs:
    image:
{lines}
      calibration: {{images: "{images}"}}
targets:
  nnie: {{chip: hi3516cv500, compile_mode: 1{options}}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A picture, the same as an array, and a network that reads it as [1, 16, 24, 3] and gives [1, 16, 24, 4]."""
    net = Net()
    net.inputs.append(("image", (1, 16, 24, 3)))
    x = net.node("Transpose", ["image"], "to_channels_first", perm=[0, 3, 1, 2])
    x = net.node("Relu", [net.conv(x, (3, 4), "stem")], "relu")
    model = net.model(net.node("Transpose", [x], "map", perm=[0, 2, 3, 1]))
    (tmp_path / "net.onnx").write_bytes(model.onnx_bytes)
    pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 3)).astype(np.uint8)
    cv2.imwrite(str(tmp_path / "picture.png"), pixels[..., ::-1])  # OpenCV writes blue first
    np.save(tmp_path / "array.npy", pixels[np.newaxis].astype(np.float32))
    return tmp_path


def run(folder: Path, lines: str, images: str = "picture.png", options: str = "") -> BaseException | None:
    """What `nnkit run` raised."""
    (folder / "recipe.yaml").write_text(RECIPE.format(lines=lines, images=images, options=options))
    done = CliRunner().invoke(app, ["run", "--out", str(folder / "out"), str(folder / "recipe.yaml")])
    assert done.exception is None or isinstance(done.exception, NnkitError), done.output
    return done.exception


@pytest.mark.parametrize(
    ("lines", "images", "options", "remedy"),
    [
        ("      preprocess: {color: rgb}", "picture.png", "", "layout: nhwc"),
        ("      preprocess: {color: rgb}\n      shape: [1, 16, 24, 3]", "picture.png", "", "layout: nhwc"),
        ("      shape: [1, 16, 24, 3]", "array.npy", "", "layout: nhwc"),
        ("      shape: [1, 16, 24, 3]", "array.npy", ", outside_limits: custom", "layout: nhwc"),
    ],
)
def test_what_is_refused_names_the_remedy(project: Path, lines: str, images: str, options: str, remedy: str):
    error = run(project, lines, images, options)
    assert isinstance(error, NnkitError)
    assert remedy in str(error)


@pytest.mark.parametrize("shape", ["", "\n      shape: [1, 16, 24, 3]"])
def test_the_remedy_followed(project: Path, shape: str):
    assert run(project, f"      preprocess: {{color: rgb}}\n      layout: nhwc{shape}") is None
    build = project / "out" / "net" / "nnie"
    segments = json.loads((build / "artifact" / "segments.json").read_text())["segments"]
    assert [segment["runs_on"] for segment in segments] == ["nnie"]
    assert "`cpu/`" not in (build / "artifact" / "README.md").read_text()
    image = np.load(project / "array.npy")
    expected = onnxruntime.InferenceSession(str(project / "net.onnx")).run(None, {"image": image})[0]
    turned = onnx.load(build / "restructured.onnx")
    assert [node.op_type for node in turned.graph.node] == ["Conv", "Relu", "Transpose"]
    found = onnxruntime.InferenceSession(turned.SerializeToString()).run(
        None, {"image": image.transpose(0, 3, 1, 2)}
    )[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
    report = json.loads((build / "report.json").read_text())
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999


def test_a_first_recipe_has_it(project: Path):
    (project / "pictures").mkdir()
    (project / "picture.png").rename(project / "pictures" / "0.png")
    given = ["--target", "ansi_c", "--images", str(project / "pictures"), "--out", str(project / "first.yaml")]
    for command in (["init", str(project / "net.onnx"), *given], ["plan", str(project / "first.yaml")]):
        done = CliRunner().invoke(app, command)
        assert done.exception is None, done.output
    assert "layout: nhwc" in (project / "first.yaml").read_text()
