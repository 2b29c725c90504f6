"""A network that gives a list of detections is judged by the agreement of detections, and by no distance."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from nnie_networks import OWN, Net
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.distance import distance
from nnkit.errors import RecipeError
from nnkit.stages.raw_boxes import raw_boxes_note
from nnkit.verify.tasks.detection import score_detection
from nnkit.verify.tasks.score import Outputs

PRIORS = 16


def detector(folder: Path, gates: str, task: str = "") -> Path:
    """Sixteen prior boxes of a 4 x 4 map, one class beside the background."""
    net = Net(4)
    x = net.node("Relu", [net.conv(net.input("image", 3, 16, 16), (3, 8), "stem", strides=[4, 4])], "relu")
    scores = net.node("Sigmoid", [net.conv(x, (8, 2), "score")], "prob")
    parts = [net.node("Flatten", [each], f"{each}_flat") for each in (net.conv(x, (8, 4), "box"), scores)]
    corners = np.stack([c.ravel() for c in np.meshgrid(np.arange(4) / 4.0, np.arange(4) / 4.0)], axis=1)
    boxes = np.concatenate([corners, corners + 0.3], axis=1).ravel()
    priors = net.constant("priors", np.stack([boxes, np.full(4 * PRIORS, 0.1)])[None])
    found = net.node(
        "DetectionOutput", [*parts, priors], "found", OWN, num_classes=2, keep_top_k=8, nms_threshold=0.45, top_k=16,
        code_type="CENTER_SIZE", confidence_threshold=0.2,
    )  # fmt: skip
    (folder / "net.onnx").write_bytes(net.model(found).onnx_bytes)
    for index in range(3):
        pixels = np.random.default_rng(index).integers(0, 256, (16, 16, 3), np.uint8)
        cv2.imwrite(str(folder / f"{index}.png"), pixels)
    (folder / "recipe.yaml").write_text(
        "nnkit: 1\nname: ssd\nmodel:\n  path: net.onnx\n  inputs:\n    image:\n"
        "      preprocess: {color: bgr, mean: 128, scale: 0.01}\n      calibration: {images: '*.png'}\n"
        f"targets:\n  nnie: {{chip: hi3516cv500}}\nverify: {{images: '*.png'{task}, gates: {{{gates}}}}}\n"
    )
    return folder / "recipe.yaml"


@pytest.mark.parametrize("gate", ["cosine: 0.9", "sqnr_db: 10", "max_abs: 1"])
@pytest.mark.parametrize("task", ["", ", task: {kind: detection}"])
def test_mistake_7_a_distance_of_detections_is_no_gate(gate: str, task: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["plan", str(detector(tmp_path, gate, task))])
    assert isinstance(done.exception, RecipeError)
    assert f"of which '{gate.split(':')[0]}' says nothing" in str(done.exception)
    assert "recipe.yaml:11:" in str(done.exception)
    assert "detection_agreement" in str(done.exception)


def test_mistake_7_agreement_takes_the_place_of_cosine(tmp_path: Path) -> None:
    """In the summary, the line of the stage, the table of choices and the resolved recipe."""
    recipe = detector(tmp_path, "")
    done = CliRunner().invoke(app, ["run", str(recipe), "--out", str(tmp_path / "out"), "--no-cache"])
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "out/ssd/nnie/report.json").read_text())
    score = report["verify"]["task"]
    assert score["kind"] == "detection"
    detections = int(score["facts"]["float_detections"])
    assert detections > 0
    assert "cosine" not in done.output
    assert f"accuracy by {detections} detections of the float network on 3 inputs" in done.output
    agreement = next(m["program"] for m in score["metrics"] if m["name"] == "detection_agreement")
    assert f"task     detection_agreement {agreement:.4f}" in done.output
    (built,) = [row for row in report["details"]["precision"] if row["choice"] == "no_hp"]
    assert built["task"] == score["metrics"]  # one build, one accuracy
    assert "choices on the images that the build is verified on:" in done.output
    assert "kind: detection" in (tmp_path / "out/ssd/nnie/recipe.yaml").read_text()


def test_mistake_7_boxes_in_a_corner_have_a_high_cosine_and_no_agreement() -> None:
    """Class and score outweigh four corners, so that the cosine does not see that all of these are wrong."""
    random = np.random.default_rng(1)
    places = random.uniform(0.0, 0.15, (12, 2))
    right = np.concatenate([np.tile([0.0, 3.0, 0.95], (12, 1)), places, places + 0.1], axis=1)
    wrong = right.copy()
    wrong[:, 3:] = [0.0, 0.0, 0.02, 0.02]
    assert distance(wrong, right).cosine > 0.994
    score = score_detection(Outputs(("a",), (right,)), Outputs(("a",), (wrong,)), None, 0.5, 0.5)
    assert score.values()["detection_agreement"] == 0.0


def raw_boxes(folder: Path, verify: str) -> Path:
    """The same head without its last layer: maps of boxes and scores."""
    detector(folder, "")
    net = Net(4)
    x = net.node("Relu", [net.conv(net.input("image", 3, 16, 16), (3, 8), "stem", strides=[4, 4])], "relu")
    scores = net.node("Sigmoid", [net.conv(x, (8, 2), "score")], "prob")
    (folder / "net.onnx").write_bytes(net.model(net.conv(x, (8, 4), "box"), scores).onnx_bytes)
    text = (folder / "recipe.yaml").read_text()
    (folder / "recipe.yaml").write_text(text.replace(", gates: {}}", f", {verify}}}" if verify else "}"))
    return folder / "recipe.yaml"


def test_boxes_and_scores_without_decoding_are_told_with_the_lines_that_mend_it(tmp_path: Path) -> None:
    """The lines that the report gives, completed by the anchors, lead to detections."""
    recipe = raw_boxes(tmp_path, "")
    done = CliRunner().invoke(app, ["run", str(recipe), "--out", str(tmp_path / "out"), "--no-cache"])
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "out/ssd/nnie/report.json").read_text())
    (note,) = [each for each in report["notes"] if "look like a detector's" in each]
    assert "task" not in report["verify"]
    told = note.partition("write verify: {")[2].partition("}}}, with")[0] + "}}"
    assert told.endswith("{heads: [{boxes: box, scores: prob, anchors: [{stride: 4, sides: [...]}]}]}}")
    recipe = raw_boxes(tmp_path, f"{told.replace('[...]', '[5]')}, gates: {{detection_agreement: 0.01}}")
    done = CliRunner().invoke(app, ["run", str(recipe), "--out", str(tmp_path / "out"), "--no-cache"])
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "out/ssd/nnie/report.json").read_text())
    assert report["verify"]["task"]["kind"] == "detection"
    assert report["verify"]["task"]["facts"]["float_detections"] > 0
    (built,) = [row for row in report["details"]["precision"] if row["choice"] == "no_hp"]
    assert built["task"] == report["verify"]["task"]["metrics"]
    assert not [each for each in report["notes"] if "look like a detector's" in each]


def test_a_distance_of_boxes_and_scores_is_no_gate_where_detections_are_read(tmp_path: Path) -> None:
    decode = "decode: {heads: [{boxes: box, scores: prob, anchors: [{stride: 4, sides: [5]}]}]}"
    recipe = raw_boxes(tmp_path, f"task: {{kind: detection, {decode}}}, gates: {{cosine: 0.9}}")
    done = CliRunner().invoke(app, ["plan", str(recipe)])
    assert isinstance(done.exception, RecipeError)
    assert "nearly all are of the background" in str(done.exception)


def test_heads_that_are_not_the_networks_are_told_by_the_dry_run(tmp_path: Path) -> None:
    decode = "decode: {heads: [{boxes: box, scores: prob, anchors: [{stride: 8, sides: [5]}]}]}"
    done = CliRunner().invoke(app, ["plan", str(raw_boxes(tmp_path, f"task: {{kind: detection, {decode}}}"))])
    assert isinstance(done.exception, RecipeError)
    assert "are not 4 and as many as classes for each of 4 boxes for anchors on maps of 2 x 2" in str(done.exception)
    assert "recipe.yaml:11:" in str(done.exception)


def test_plain_networks_are_no_detectors() -> None:
    net = Net()
    x = net.conv(net.input("image", 3, 16, 16), (3, 8), "stem")
    model = net.model(net.conv(x, (8, 4), "depth"), net.conv(x, (8, 2), "score_map"), net.conv(x, (8, 3), "mask"))
    assert raw_boxes_note(model) is not None  # four channels beside scores: a guess
    net = Net()
    x = net.conv(net.input("image", 3, 16, 16), (3, 8), "stem")
    assert raw_boxes_note(net.model(net.conv(x, (8, 3), "box"), net.conv(x, (8, 2), "score"))) is None
