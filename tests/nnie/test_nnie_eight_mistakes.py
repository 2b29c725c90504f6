"""Eight mistakes that stopped or misled users once, each held off by a test named so: `pytest -k test_mistake_`.

1, 2, 6 and 8 are here. 3, a layer of the user's own, is in `test_nnie_custom_layers`; 4, what plan accepts and emit
refuses, in `test_nnie_plan_and_emit`; 5, refusals that name the cut, in `test_nnie_lowered`; 7, detections judged by
cosine, in `test_settle_task`.
"""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from caffe_reference import relative_error, run_opencv
from click.testing import Result
from nnie_networks import Net
from typer.testing import CliRunner

from nnkit.caffe.schema import messages
from nnkit.caffe.weights import fill_blob
from nnkit.cli import app
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.report import progress
from nnkit.rewrite import available_rules, restructure
from nnkit_nnie.limits.context import Division
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.target import NnieTarget

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


def write_network(folder: Path, rules: str) -> None:
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
    (folder / "recipe.yaml").write_text(RECIPE % rules)


@pytest.mark.parametrize("rules", ["", "restructure: []"])
def test_mistake_1_in_place_on_the_input_6_two_accuracies_and_8_a_table_without_a_word(
    rules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BatchNorm and Scale cannot be folded into a convolution that pads: they stay, as one layer or as two.

    The summary and the table of choices have one accuracy for the one build, and the run says which image the table
    is at; here every change is told, not one in a while.
    """
    monkeypatch.setattr(progress, "_SAY_SECONDS", 0.0)
    write_network(tmp_path, rules)
    done: Result = CliRunner().invoke(
        app, ["run", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "out"), "--no-cache"]
    )
    assert done.exit_code == 0, done.output
    build = tmp_path / "out" / "net" / "nnie"
    report = json.loads((build / "report.json").read_text())
    (own,) = [row for row in report["details"]["precision"] if row["choice"] == "no_hp"]
    summary = report["verify"]["float_vs_program"]
    assert (own["cosine"], own["sqnr_db"]) == (summary["cosine"], summary["sqnr_db"])
    assert (own["images"], summary["inputs"]) == (1, 1)
    assert "choices on the images that the build is verified on:" in done.output
    assert "choices of 16-bit layers, image 1 of 1" in done.output
    checked = report["verify"]["program_vs_artifact"]
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


def test_mistake_2_focus_is_one_convolution_on_the_nnie(tmp_path: Path) -> None:
    """YOLO's first layer, four strided Slices of the picture: by the target's own rules one convolution."""
    net = Net()
    picture = net.input("data", 3, 16, 24)
    parts = [
        net.node("Slice", [picture, *(net.constant(f"{name}{k}", at, np.int64) for k, at in enumerate(bounds))], name)
        for name, bounds in (
            (f"part{row}{column}", [[row, column], [2**31 - 1] * 2, [2, 3], [2, 2]])
            for row, column in ((0, 0), (1, 0), (0, 1), (1, 1))
        )
    ]
    joined = net.node("Concat", parts, "joined", axis=1)
    model = net.model(net.node("Relu", [net.conv(joined, (12, 8), "focus")], "relu"))
    rules = available_rules()
    ruled = restructure(model, [rules[name] for name in NnieTarget.default_rules], check_inputs=[])[0]
    (segment,) = NnieLowered.of(ruled, Division("hi3516cv500")).segments
    assert (segment.placement, segment.layers) == ("npu", ("focus",))
    random = np.random.default_rng(3).normal(size=(1, 3, 16, 24)).astype(np.float32)
    before, after = (FloatSession(each).run({"data": random}) for each in (model, ruled))
    assert relative_error(after["relu"], before["relu"]) < 1e-5
