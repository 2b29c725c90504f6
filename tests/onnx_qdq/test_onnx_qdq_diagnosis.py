"""The table of what each layer loses: against ONNX Runtime's float values, and behind an equalisation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.affine_build.diagnosis import layer_table, table_summary
from nnkit.affine_build.quantize import source_of, to_program
from nnkit.calibrate import calibrate
from nnkit.distance import distance
from nnkit.quantize.lowered import LoweredLayers
from nnkit.recipe import Calibration
from nnkit.samples import Sample
from nnkit.target import Quantization
from nnkit_onnx_qdq.options import OnnxQdqOptions
from tests.quantize.affine.test_affine_equalize import two_convolutions

UNSEEN = 4  # images


def test_every_report_tells_what_each_layer_loses(tmp_path: Path) -> None:
    path = write_project(tmp_path, images=8)
    (tmp_path / "unseen").mkdir()
    for index in range(UNSEEN):
        (tmp_path / f"images/{index}.png").rename(tmp_path / f"unseen/{index}.png")
    text = path.read_text().replace("gap8: {}", "onnx_qdq: {}")
    path.write_text(text.replace("verify: {", 'verify: {images: "unseen/*.png", '))
    folder = pipeline.run(make_build(path, target="onnx_qdq"), tmp_path / "out").folder
    report = json.loads((folder / "report.json").read_text())
    found = report["details"]["diagnosis"]
    assert found["samples"] == {"calibration": 4, "verification": UNSEEN}
    rows = {row["name"]: row for row in found["layers"]}
    assert list(rows) == [layer["name"] for layer in report["layers"]]
    # What the run itself measured of the same images, with ONNX Runtime as the float network.
    compared = 0
    for layer in report["layers"]:
        if layer["sqnr_db"] is not None:
            row = rows[layer["name"]]
            assert row["cumulative_sqnr_db"]["verification"] == pytest.approx(layer["sqnr_db"], abs=0.02)
            loss = row["cumulative_sqnr_db"]["calibration"] - row["cumulative_sqnr_db"]["verification"]
            assert row["gap_db"] == pytest.approx(loss)
            compared += 1
    assert compared > 5
    ranked = sorted((row for row in rows.values() if row["rank"]), key=lambda row: row["rank"])
    alone = [row["isolated_sqnr_db"]["calibration"] for row in ranked]
    assert alone == sorted(alone)
    assert ranked[0]["name"] in report["details"]["summary"][0]


def test_the_clip_rate_is_the_share_beyond_the_format(tmp_path: Path) -> None:
    path = write_project(tmp_path, images=8)
    path.write_text(
        path.read_text()
        .replace("gap8: {}", "onnx_qdq: {}")
        .replace("release:", "calibration: {method: percentile, percentile: 90, corrections: []}\nrelease:")
        .replace("cosine: 0.99, sqnr_db: 20", "cosine: 0.5")
    )
    folder = pipeline.run(make_build(path, target="onnx_qdq"), tmp_path / "out").folder
    report = json.loads((folder / "report.json").read_text())
    first = report["details"]["diagnosis"]["layers"][0]
    model = onnx.load(folder / "restructured.onnx")
    model.graph.output.append(onnx.helper.make_tensor_value_info(first["output"], onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = [np.load(found) for found in sorted((folder / "verify").glob("*_float.npy"))]
    values = np.concatenate([session.run([first["output"]], {"x": each})[0].ravel() for each in given])
    artifact = onnx.load(folder / "artifact" / "model.onnx")
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in artifact.graph.initializer}
    scale = float(constants[f"{first['output']}.scale"].item())
    zero = int(constants[f"{first['output']}.zero_point"].item())
    beyond = (values > (255 - zero + 0.5) * scale) | (values < (-zero - 0.5) * scale)
    assert first["clip_rate"]["calibration"] == pytest.approx(float(beyond.mean()), rel=0.02)
    assert first["clip_rate"]["calibration"] > 0.01


def test_values_that_equalisation_scaled_have_names_of_their_own() -> None:
    model = two_convolutions("Relu", 1)
    inputs = np.random.default_rng(3).normal(0, 1, (16, 1, 3, 6, 6)).astype(np.float32)
    samples = [Sample(str(index), {"x": value}) for index, value in enumerate(inputs)]
    options = OnnxQdqOptions(weights="per_tensor")
    quantization = Quantization(
        "net",
        calibrate(model, {"x": list(inputs[:, 0])}, {}, method="mse"),
        Calibration(method="mse", corrections=("equalize",)),
        {},
        lambda count: samples[:count],
    )
    program = to_program(LoweredLayers.of(model), quantization, options)
    assert any(note.startswith("equalisation kept") for note in program.notes)
    assert [op.output for op in program.ops] == ["a.equalized", "y"]
    source, named = source_of(program, LoweredLayers.of(model), quantization.samples, options)
    assert [op.output for op in named.ops] == ["a", "y"]
    table = layer_table(program, LoweredLayers.of(model), quantization.samples, samples[8:], options)
    first, last = table["layers"]
    assert (first["output"], last["output"]) == ("a.equalized", "y")
    # Beside the network's own values the scaled ones would look like noise.
    assert first["cumulative_sqnr_db"]["calibration"] > 25.0
    from nnkit.quantize.affine import float_outputs, outputs_of

    whole = {"x": inputs[:8, 0]}
    expected = distance(outputs_of(program, whole)["y"], float_outputs(model, whole)["y"]).sqnr_db
    assert last["cumulative_sqnr_db"]["calibration"] == pytest.approx(expected, abs=0.01)
    assert source is not model


def test_a_table_needs_no_held_out_images() -> None:
    model = two_convolutions("Relu", 1)
    inputs = np.random.default_rng(3).normal(0, 1, (9, 1, 3, 6, 6)).astype(np.float32)
    samples = [Sample(str(index), {"x": value}) for index, value in enumerate(inputs)]
    quantization = Quantization(
        "net",
        calibrate(model, {"x": list(inputs[:, 0])}, {}, method="max"),
        Calibration(),
        {},
        lambda count: samples[:count],
    )
    program = to_program(LoweredLayers.of(model), quantization, OnnxQdqOptions())
    table = layer_table(program, LoweredLayers.of(model), quantization.samples, [], OnnxQdqOptions())
    assert list(table["samples"]) == ["calibration"]
    assert {row["gap_db"] for row in table["layers"]} == {None}
    assert table_summary(table)
    assert layer_table(program, LoweredLayers.of(model), lambda count: [], [], OnnxQdqOptions()) == {}
    assert table_summary({}) == []
