"""A small network of depthwise layers that corrections change, as a recipe with pictures."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
from click.testing import Result
from nnie_networks import Net
from typer.testing import CliRunner

from nnkit.cli import app


def project(folder: Path, more: str, *, images: int = 16, target: str = "", blocks: int = 3) -> Path:
    """A small network of depthwise layers, with a vector at its end."""
    net = Net(11)
    x = net.node("Relu", [net.conv(net.input("image", 3, 16, 16), (3, 12), "stem", strides=[2, 2])], "stem_relu")
    for index in range(blocks):
        x = net.node("Relu", [net.conv(x, (12, 12), f"dw{index}", group=12)], f"dw{index}_relu")
        x = net.node("Relu", [net.conv(x, (12, 12), f"pw{index}", kernel=1)], f"pw{index}_relu")
    model = net.model(net.fc(net.node("Flatten", [x], "flat"), (12 * 64, 8), "fc"))
    (folder / "net.onnx").write_bytes(model.onnx_bytes)
    for index in range(images):
        pixels = cv2.resize(np.random.default_rng(index).integers(0, 256, (5, 5, 3), np.uint8), (16, 16))
        cv2.imwrite(str(folder / f"{index:02}.png"), pixels)
    verified = "" if "verify" in more else "verify: {images: '*.png', count: 4}\n"
    (folder / "recipe.yaml").write_text(
        "nnkit: 1\nname: small\nmodel:\n  path: net.onnx\n  inputs:\n    image:\n"
        "      preprocess: {color: bgr, mean: 128, scale: 0.02}\n      calibration: {images: '*.png'}\n"
        f"targets:\n  nnie: {{chip: hi3516cv500, precision_table: false{target}}}\n{more}{verified}"
    )
    return folder / "recipe.yaml"


def run(recipe: Path) -> Result:
    return CliRunner().invoke(app, ["run", str(recipe), "--out", str(recipe.parent / "out"), "--no-cache"])


def report(folder: Path) -> dict:
    return json.loads((folder / "out" / "small" / "nnie" / "report.json").read_text())
