"""`hp: auto` on the TPU: what the search chooses, that the build has it, and that the chip model agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.errors import RecipeError
from nnkit_tpu.toolchain import Toolchain


def built(folder: Path, tags: str, gates: str, options: str, more: str = "") -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    path = write_project(folder, images=6)
    text = path.read_text().replace("gap8: {}", f"tpu: {{{options}, layer_group: quick}}")
    text = text.replace("verify: {gates: {cosine: 0.99, sqnr_db: 20, max_abs: 10}}", f"verify: {{gates: {gates}}}")
    path.write_text(text.replace("release:", f"{more}tags: {tags}\nrelease:"))
    outcome = pipeline.run(make_build(path, target="tpu", emulate=True), folder / "out")
    report: dict[str, Any] = json.loads((outcome.folder / "report.json").read_text())
    assert report["status"] == "ok"
    assert report["verify"]["program_vs_artifact"][0]["mismatches"] == 0, "the chip model agrees in every layer"
    return report


def decibels(report: dict[str, Any]) -> float:
    return float(report["verify"]["float_vs_program"]["sqnr_db"])


PLAIN = "calibration: {method: max, corrections: []}\n"
CLIPPED = "calibration: {method: percentile, percentile: 99, corrections: []}\n"


@pytest.mark.parametrize(("chip", "high", "method"), [("bm1684x", "F16", PLAIN), ("cv181x", "BF16", CLIPPED)])
def test_the_search_finds_layers_for_a_gate(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, high: str, method: str
) -> None:
    """BF16 has no more bits than INT8 where a value is large: there, what INT8 clips is what there is to gain."""
    plain = built(tmp_path / "plain", "{}", "{cosine: 0.5}", f"chip: {chip}", method)
    limit = round(decibels(plain) + 1.0, 2)
    report = built(tmp_path / "auto", "{hp: auto}", f"{{sqnr_db: {limit}}}", f"chip: {chip}", method)
    names = [row["name"] for row in report["mixed_precision"]["chosen"]]
    assert 0 < len(names) < len(report["layers"])
    assert decibels(report) >= limit
    tagged = [layer["name"] for layer in report["layers"] if "hp" in layer["tags"]]
    assert set(names) <= set(tagged)
    sources = tmp_path / "auto" / "out" / "small" / "tpu" / "artifact" / "sources" / "net.qtable"
    table = dict(line.split() for line in sources.read_text().splitlines() if line and not line.startswith("#"))
    assert set(table.values()) == {high}
    by_hand = built(
        tmp_path / "hand", f"{{hp: {json.dumps(names)}}}", f"{{sqnr_db: {limit}}}", f"chip: {chip}", method
    )
    assert by_hand["artifact"] == report["artifact"], "the same build by the names that were found"


def test_where_nothing_is_left_to_choose(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="every layer is in f16 already"):
        built(tmp_path, "{hp: auto}", "{cosine: 0.5}", "chip: bm1684x, precision: f16")


def test_with_corrections_the_choice_is_confirmed_on_what_is_built(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    corrected = "calibration: {corrections: [bias_correction]}\n"
    report = built(tmp_path, "{hp: auto, budget: 4KiB}", "{cosine: 0.5}", "chip: bm1684x", corrected)
    assert report["mixed_precision"]["certificate"] == "budget"
    assert sum(row["extra_weight_bytes"] for row in report["mixed_precision"]["chosen"]) <= 4096


def test_a_fully_connected_layer_that_became_a_convolution_is_searched_too(tmp_path: Path) -> None:
    """Its value has another shape, and a name that the float network does not have."""
    path = write_project(tmp_path, images=4)
    random = np.random.default_rng(1)
    weights = {"w": random.normal(0, 0.3, (8, 1, 3, 3)), "v": random.normal(0, 0.3, (3, 8)), "b": np.ones(3)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", strides=[4, 4]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "v", "b"], ["y"], name="dense", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 40, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx"
    )
    text = path.read_text().replace("gap8: {}", "tpu: {chip: bm1684x}")
    text = text.replace("verify: {gates: {cosine: 0.99, sqnr_db: 20, max_abs: 10}}", "verify: {gates: {cosine: 0.5}}")
    path.write_text(text.replace("release:", f"{PLAIN}tags: {{hp: auto, budget: 1KiB}}\nrelease:"))
    search = pipeline.prepare(make_build(path, target="tpu")).settled.search
    assert search is not None
    (dense,) = (row for row in search["layers"] if row["name"] == "dense")
    assert all(decibels > 20 for decibels in dense["cumulative_sqnr_db"].values())
