"""`fuse_preprocess` through a recipe: models that take pixels, compared layer by layer on the vendor's chip model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.errors import ExitCode, NnkitError
from nnkit.preprocess import Preprocess
from nnkit.preprocess.load import preprocess_image
from nnkit.preprocess.settings import Resize
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.toolchain import Toolchain

SIDE = 12
MEAN, SCALE = (123.0, 116.5, 103.25), (1 / 58, 1 / 57, 1 / 59)


def _network(channels: int, *, shared: bool = False) -> onnx.ModelProto:
    """Two convolutions of an image. shared: the image is added to the first one's result, too."""
    random = np.random.default_rng(1)
    width = channels if shared else 8
    shapes = {"w": (width, channels, 3, 3), "b": (width,), "v": (4, width, 3, 3)}
    weights = [numpy_helper.from_array(random.normal(0, 0.3, s).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["image", "w", "b"], ["first"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["first"], ["relu"], name="relu"),
        *([helper.make_node("Add", ["relu", "image"], ["sum"], name="sum")] if shared else []),
        helper.make_node("Conv", ["sum" if shared else "relu", "v"], ["scores"], name="scores", strides=[2, 2]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, channels, SIDE, SIDE))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (1, 4, 5, 5))],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _pictures(folder: Path) -> None:
    """Larger than the input, with colours that differ from channel to channel."""
    folder.mkdir()
    random = np.random.default_rng(2)
    for index in range(4):
        pixels = random.integers(0, 256, (SIDE * 2, SIDE * 3, 3)) // np.array([1, 2, 4])
        Image.fromarray(pixels.astype(np.uint8), "RGB").save(folder / f"{index}.png")


def _recipe(folder: Path, color: str, options: str, *, shared: bool = False, preprocess: str = "") -> Path:
    channels = 1 if color == "gray" else 3
    onnx.save(_network(channels, shared=shared), folder / "net.onnx")
    _pictures(folder / "images")
    mean, scale = list(MEAN[:channels]), list(SCALE[:channels])
    written = preprocess or f"{{color: {color}, resize: {{size: [{SIDE}, {SIDE}]}}, mean: {mean}, scale: {scale}}}"
    line = f"preprocess: {written}, " if written != "none" else ""
    text = f"""nnkit: 1
name: small
model:
  path: net.onnx
  inputs:
    image: {{{line}calibration: {{images: images/*.png}}}}
calibration: {{method: max}}
targets:
  tpu: {options}
verify: {{images: images/*.png, gates: {{cosine: 0.99}}}}
"""
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _run(folder: Path, *recipe: Any, **more: Any) -> tuple[Path, dict[str, Any]]:
    out = folder / "out"
    done = CliRunner().invoke(app, ["run", str(_recipe(folder, *recipe, **more)), "--out", str(out), "--no-cache"])
    assert done.exit_code == 0, done.output
    build = out / "small" / "tpu"
    report: dict[str, Any] = json.loads((build / "report.json").read_text(encoding="utf-8"))
    return build, report


def _verdict(report: dict[str, Any]) -> dict[str, Any]:
    return next(each for each in report["verify"]["program_vs_artifact"] if each["how"] == "chip_model")


@pytest.mark.parametrize(
    ("chip", "color", "pixels", "shared"),
    [
        ("bm1684x", "rgb", "{color: bgr, layout: packed}", False),
        ("bm1684x", "rgb", "{color: bgr}", True),
        ("bm1684x", "gray", "{}", False),
        ("bm1688", "bgr", "{layout: packed}", False),
        ("cv181x", "bgr", "{color: rgb, layout: packed}", False),
        ("cv181x", "gray", "{}", False),
    ],
)
def test_an_int8_model_of_pixels_is_exact(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, color: str, pixels: str, shared: bool
) -> None:
    options = f"{{chip: {chip}, fuse_preprocess: true, pixels: {pixels}}}"
    build, report = _run(tmp_path, color, options, shared=shared)
    verdict = _verdict(report)
    assert verdict["mismatches"] == 0
    assert verdict["max_difference"] == 0
    assert verdict["values"] > 500
    assert report["details"]["prediction"]["disagreements"] == []
