"""Layers that overwrite the network's input: the emitted pair is checked, and computes what the given files do."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from caffe_reference import relative_error, run_opencv
from click.testing import Result
from typer.testing import CliRunner

from nnkit.caffe.schema import messages
from nnkit.caffe.weights import fill_blob
from nnkit.cli import app

NET = """\
name: "n"
input: "data"
input_shape { dim: 1 dim: 3 dim: 16 dim: 16 }
layer { name: "data_bn" type: "BatchNorm" bottom: "data" top: "data" batch_norm_param { use_global_stats: true } }
layer { name: "data_bn_scale" type: "Scale" bottom: "data" top: "data" scale_param { bias_term: true } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
"""
RECIPE = """\
nnkit: 1
name: net
model:
  path: net.prototxt
  weights: net.caffemodel
  inputs: {data: {shape: [1, 3, 16, 16], preprocess: {color: bgr}, calibration: {images: a.png}}}
%s
targets:
  nnie: {chip: hi3516dv300}
verify: {images: a.png}
"""


def write_network(folder: Path, restructure: str) -> None:
    """NET, its weights, an image and a recipe."""
    random = np.random.default_rng(0)
    weights = {
        "data_bn": [[100.0, 110.0, 120.0], [2000.0, 3000.0, 2500.0], [1.0]],
        "data_bn_scale": [[1.0, 0.9, 1.1], [0.1, 0.0, -0.1]],
        "conv": [random.normal(0.0, 0.3, (4, 3, 3, 3)), random.normal(0.0, 0.1, 4)],
    }
    file = messages.WeightFile()
    for name, arrays in weights.items():
        layer = file.layer.add()
        layer.name = name
        for array in arrays:
            fill_blob(layer.blobs.add(), np.asarray(array, np.float32))
    (folder / "net.prototxt").write_text(NET)
    (folder / "net.caffemodel").write_bytes(file.SerializeToString())
    cv2.imwrite(str(folder / "a.png"), random.integers(0, 256, (16, 16, 3)).astype(np.uint8))
    (folder / "recipe.yaml").write_text(RECIPE % restructure)


@pytest.mark.parametrize("restructure", ["", "restructure: []"])
def test_normalisation_in_place_on_the_input(restructure: str, tmp_path: Path) -> None:
    """BatchNorm and Scale cannot be folded into a convolution that pads: they stay, as one layer or as two."""
    write_network(tmp_path, restructure)
    done: Result = CliRunner().invoke(
        app, ["run", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "out"), "--no-cache"]
    )
    assert done.exit_code == 0, done.output
    build = tmp_path / "out" / "net" / "nnie"
    checked = json.loads((build / "report.json").read_text())["verify"]["program_vs_artifact"]
    caffe = next(each for each in checked if each["how"] == "caffe")
    assert caffe["mismatches"] == 0
    assert caffe["values"] >= 16 * 16 * (3 + 4)
    image = cv2.imread(str(tmp_path / "a.png")).transpose(2, 0, 1)[None].astype(np.float32)
    written = [(build / "artifact" / f"net.{end}").read_bytes() for end in ("prototxt", "caffemodel")]
    published = [(tmp_path / f"net.{end}").read_bytes() for end in ("prototxt", "caffemodel")]
    ours, theirs = (
        run_opencv(prototxt, weights, {"data": image}, {"conv": "conv"})["conv"]
        for prototxt, weights in (written, published)
    )
    assert relative_error(ours, theirs) < 1e-5
