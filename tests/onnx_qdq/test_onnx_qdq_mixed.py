"""Layers in 16 bits in an onnx_qdq build: by tags, and by the search behind `hp: auto`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.errors import GateFailedError, RecipeError
from nnkit.report.schema import report_json_schema


def built(folder: Path, tags: str, gates: str = "{cosine: 0.5}", options: str = "{}") -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    path = write_project(folder, images=8)
    text = path.read_text().replace("gap8: {}", f"onnx_qdq: {options}")
    text = text.replace("verify: {gates: {cosine: 0.99, sqnr_db: 20, max_abs: 10}}", f"verify: {{gates: {gates}}}")
    path.write_text(text.replace("release:", f"calibration: {{method: mse}}\ntags: {tags}\nrelease:"))
    outcome = pipeline.run(make_build(path, target="onnx_qdq"), folder / "out")
    assert outcome.status == "ok"
    report: dict[str, Any] = json.loads((outcome.folder / "report.json").read_text())
    assert list(jsonschema.Draft202012Validator(report_json_schema()).iter_errors(report)) == []
    assert report["verify"]["program_vs_artifact"][0]["mismatches"] == 0, "ONNX Runtime agrees in every layer"
    report["folder"] = outcome.folder
    return report


def decibels(report: dict[str, Any]) -> float:
    return float(report["verify"]["float_vs_program"]["sqnr_db"])


@pytest.fixture(scope="module")
def eight_bits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return built(tmp_path_factory.mktemp("int8") / "project", "{}")


def test_a_tagged_layer_has_16_bits_and_its_neighbours_meet_it_there(
    tmp_path: Path, eight_bits: dict[str, Any]
) -> None:
    first, second = [layer["name"] for layer in eight_bits["layers"] if "weight" in layer["formats"]][:2]
    report = built(tmp_path / "project", f"{{hp: [{first}]}}")
    rows = {layer["name"]: layer for layer in report["layers"]}
    assert rows[first]["tags"] == ["hp"]
    assert rows[first]["formats"]["weight"].startswith("s16")
    assert rows[first]["formats"]["output"].startswith("u16")
    assert rows[second]["formats"]["weight"].startswith("s8")
    model = onnx.load(report["folder"] / "artifact" / "model.onnx")
    assert [entry.version for entry in model.opset_import if not entry.domain] == [21]
    kinds = {tensor.data_type for tensor in model.graph.initializer}
    assert {onnx.TensorProto.INT8, onnx.TensorProto.INT16, onnx.TensorProto.UINT8, onnx.TensorProto.UINT16} <= kinds


def test_all_layers_by_globs_are_as_accurate_as_the_precision_int16(tmp_path: Path) -> None:
    by_tags = built(tmp_path / "tags", '{hp: ["*"]}')
    by_option = built(tmp_path / "option", "{}", options="{precision: int16}")
    assert decibels(by_tags) == pytest.approx(decibels(by_option), abs=1.0)
    assert decibels(by_option) > 50.0


def test_the_search_finds_layers_for_a_gate_and_says_why(tmp_path: Path, eight_bits: dict[str, Any]) -> None:
    limit = round(decibels(eight_bits) + 5.0, 2)
    report = built(tmp_path / "project", "{hp: auto}", f"{{sqnr_db: {limit}}}")
    found = report["mixed_precision"]
    names = [row["name"] for row in found["chosen"]]
    assert names
    tagged = [layer["name"] for layer in report["layers"] if "hp" in layer["tags"]]
    assert [name for name in tagged if not name.endswith(".pool")] == names  # a fused pool is an op of its own here
    assert decibels(report) >= limit
    assert found["certificate"] in ("minimum", "irreducible")
    assert all(row["without"]["sqnr_db"] is not None and row["reason"] for row in found["chosen"])
    assert sorted(row["rank"] for row in found["layers"]) == list(range(1, found["candidates"] + 1))
    for row in found["layers"]:
        assert set(row) >= {"cumulative_sqnr_db", "clip_rate", "alone_in_8_bits_sqnr_db", "extra_weight_bytes"}
    by_hand = built(tmp_path / "by_hand", f"{{hp: {json.dumps(names)}}}", f"{{sqnr_db: {limit}}}")
    assert by_hand["artifact"] == report["artifact"], "the same build by the names that were found"


def test_a_budget_buys_accuracy_and_is_kept(tmp_path: Path, eight_bits: dict[str, Any]) -> None:
    report = built(tmp_path / "project", "{hp: auto, budget: 2000}")
    found = report["mixed_precision"]
    assert found["certificate"] == "budget"
    assert 0 < sum(row["extra_weight_bytes"] for row in found["chosen"]) <= 2000
    costs = [row["extra_weight_bytes"] for row in found["pareto"]]
    gained = [row["sqnr_db"] for row in found["pareto"]]
    assert (costs, gained) == (sorted(costs), sorted(gained))
    assert decibels(report) > decibels(eight_bits)


def test_gates_that_16_bits_cannot_meet_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(GateFailedError, match="fail even with all"):
        built(tmp_path / "project", "{hp: auto}", "{sqnr_db: 200}")


def test_where_all_has_16_bits_there_is_nothing_to_choose(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="every layer has 16 bits already"):
        built(tmp_path / "project", "{hp: auto}", options="{precision: int16}")


def test_weights_alone_are_chosen_where_activations_have_16_bits(tmp_path: Path) -> None:
    plain = built(tmp_path / "plain", "{}", options="{precision: a16w8}")
    limit = round(decibels(plain) + 2.0, 2)
    report = built(tmp_path / "project", "{hp: auto}", f"{{sqnr_db: {limit}}}", options="{precision: a16w8}")
    assert report["mixed_precision"]["chosen"]
    assert all("16" in layer["formats"]["output"].split()[0] for layer in report["layers"])
