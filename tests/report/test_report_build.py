"""`report.json` of a real build: its schema, its page in the docs, and its numbers against other sources."""

from __future__ import annotations

import copy
import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnxruntime
import pytest
from PIL import Image
from small_project import make_build, write_project

from nnkit.pipeline import run
from nnkit.report.schema import report_json_schema
from nnkit.verify.artifact import ArtifactVerdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "report.md"
DESIGN = {
    "": {"nnkit", "recipe", "target", "status", "memory", "layers", "rewrites", "verify", "artifact"},
    "memory": {"capacity_bytes", "peak_bytes", "lower_bound_bytes", "proven_optimal"},
    "layers": {
        *("name", "op", "placement", "tags", "macs", "formats", "accumulator", "proof", "sqnr_db"),
        *("peak_bytes", "instructions"),
    },
    "rewrites": {"name", "fired", "reason", "max_error"},
    "float_vs_program": {"cosine", "sqnr_db", "max_abs"},
    "program_vs_artifact": {"how", "contract", "values", "mismatches"},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a finished build, without the emulator."""
    folder = tmp_path_factory.mktemp("report")
    outcome = run(make_build(write_project(folder)), folder / "out")
    assert outcome.status == "ok"
    return folder


@pytest.fixture(scope="module")
def build(project: Path) -> Path:
    return project / "out/small/gap8"


@pytest.fixture(scope="module")
def report(build: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((build / "report.json").read_text(encoding="utf-8"))
    return data


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = report_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_a_real_report_follows_its_schema(report: dict[str, Any], validator: jsonschema.Draft202012Validator) -> None:
    problems = [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(report)]
    assert problems == []


def test_the_schema_knows_every_field_of_a_real_report(report: dict[str, Any]) -> None:
    def close(schema: Any) -> Any:
        """Without room for fields that the schema does not name."""
        if isinstance(schema, list):
            return [close(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        closed = {key: close(value) for key, value in schema.items() if key not in ("if", "then", "else")}
        if "properties" in schema and "additionalProperties" not in schema:
            closed["additionalProperties"] = False
        return closed

    jsonschema.validate(report, close(report_json_schema()))


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.pop("verify"),
        lambda r: r.update(status="fine"),
        lambda r: r["memory"]["l2"].pop("lower_bound_bytes"),
        lambda r: r["memory"]["l2"].update(peak_bytes=-1),
        lambda r: r["layers"][0].update(proof="likely"),
        lambda r: r["layers"][0]["formats"].update(output="float16"),
        lambda r: r["verify"]["float_vs_program"].update(cosine=1.5),
        lambda r: r["verify"]["program_vs_artifact"][0].update(values=0),
        lambda r: r["verify"]["program_vs_artifact"][1].pop("reason"),
        lambda r: next(iter(r["artifact"].values())).update(sha256="0"),
    ],
)
def test_the_schema_refuses_damaged_reports(
    change: Callable[[dict[str, Any]], object],
    report: dict[str, Any],
    validator: jsonschema.Draft202012Validator,
) -> None:
    damaged = copy.deepcopy(report)
    change(damaged)
    assert not validator.is_valid(damaged)


def test_the_fields_that_other_tools_rely_on(report: dict[str, Any]) -> None:
    entries = {
        "": [report],
        "memory": list(report["memory"].values()),
        "layers": report["layers"],
        "rewrites": report["rewrites"],
        "float_vs_program": [report["verify"]["float_vs_program"]],
        "program_vs_artifact": report["verify"]["program_vs_artifact"],
    }
    for place, wanted in DESIGN.items():
        assert entries[place], place
        for entry in entries[place]:
            assert wanted <= entry.keys(), place
    assert set(report["memory"]) == {"l1", "l2", "l3"}
    assert [gate["name"] for gate in report["verify"]["gates"]] == ["cosine", "sqnr_db", "max_abs"]


def fields_of(schema: dict[str, Any], definitions: dict[str, Any]) -> Iterator[str]:
    for name, value in schema.get("properties", {}).items():
        yield name
        yield from fields_of(value, definitions)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from fields_of(schema[key], definitions)
    if "$ref" in schema:
        yield from fields_of(definitions[schema["$ref"].rpartition("/")[2]], definitions)


def test_the_page_for_readers_names_exactly_the_fields_of_the_schema() -> None:
    schema = report_json_schema()
    known = set(fields_of(schema, schema["$defs"]))
    text = PAGE.read_text(encoding="utf-8")
    quoted = set(re.findall(r"`([^`]+)`", text))
    named = {part for word in quoted for part in word.split(".")}
    assert known - named == set()
    # The first column of its tables holds fields only.
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    listed = {part for cell in cells for word in re.findall(r"`([^`]+)`", cell) for part in word.split(".")}
    assert listed - known == {"<region>"}


def test_digests_and_sizes_are_those_of_the_files(report: dict[str, Any], build: Path) -> None:
    found = {
        path.relative_to(build / "artifact").as_posix(): {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bytes": path.stat().st_size,
        }
        for path in (build / "artifact").rglob("*")
        if path.is_file()
    }
    assert report["artifact"] == found
    assert list(found) != []


def test_accuracy_is_that_of_the_stored_outputs_against_onnx_runtime(project: Path, report: dict[str, Any]) -> None:
    """Computed again without any of nnkit's code: Pillow, ONNX Runtime, the stored integers."""
    session = onnxruntime.InferenceSession(str(project / "net.onnx"), providers=["CPUExecutionProvider"])
    (output,) = report["outputs"]
    expected, got = [], []
    for index in range(3):
        image = Image.open(project / f"images/{index}.png").resize((40, 40), Image.Resampling.BILINEAR)
        x = np.asarray(image, np.float32)[None, None]
        expected.append(session.run(None, {"x": x})[0].ravel())
        stored = np.load(project / f"out/small/gap8/verify/{index}_{output['name']}.npy")
        assert output["low"] <= stored.min()
        assert stored.max() <= output["high"]
        got.append(stored.ravel() / 2.0 ** output["frac"])
    r, a = np.concatenate(expected).astype(np.float64), np.concatenate(got)
    found = report["verify"]["float_vs_program"]
    assert found["inputs"] == 3
    assert found["cosine"] == pytest.approx(float(a @ r / np.linalg.norm(a) / np.linalg.norm(r)), abs=1e-9)
    assert found["sqnr_db"] == pytest.approx(20 * np.log10(np.linalg.norm(r) / np.linalg.norm(a - r)), abs=0.01)
    assert found["max_abs"] == pytest.approx(float(np.abs(a - r).max()), rel=1e-3)


def test_macs_by_hand(report: dict[str, Any]) -> None:
    by_name = {layer["name"]: layer["macs"] for layer in report["layers"]}
    assert by_name["conv1"] == 40 * 40 * 3  # 1x1, one channel to three
    assert by_name["conv2"] == 20 * 20 * 12 * 3 * 9  # 3x3, stride 2; the pool that it takes in adds none
    assert by_name["globalaveragepool20"] == 0
    assert report["macs"] == sum(by_name.values())


def test_layers_agree_with_the_layer_table_and_the_placement(report: dict[str, Any], build: Path) -> None:
    with (build / "layers.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["layer"], int(row["peak_bytes"])) for row in rows] == [
        (layer["name"], layer["peak_bytes"]) for layer in report["layers"]
    ]
    assert max(layer["peak_bytes"] for layer in report["layers"]) == report["memory"]["l2"]["peak_bytes"]
    assert [name for segment in report["segments"] for name in segment["layers"]] == [
        layer["name"] for layer in report["layers"]
    ]


def test_a_fused_layer_lists_what_went_into_it_and_a_plain_one_itself(report: dict[str, Any]) -> None:
    origins = {layer["name"]: layer["origins"] for layer in report["layers"]}
    assert origins["conv1"] == ["conv1"]
    assert set(origins["conv2"]) == {"conv2", "relu3", "maxpool4"}


def test_what_was_not_run_says_so(report: dict[str, Any]) -> None:
    host, rv32 = report["verify"]["program_vs_artifact"]
    assert (host["how"], host["contract"], host["mismatches"]) == ("host", "exact", 0)
    assert host["values"] > 0
    assert (rv32["how"], rv32["contract"], rv32["values"]) == ("rv32", "not_run", 0)
    assert "--no-qemu" in rv32["reason"]
    assert all(layer["instructions"] is None for layer in report["layers"])


def test_entries_of_runners_follow_the_schema_whatever_they_hold(validator: jsonschema.Draft202012Validator) -> None:
    schema = validator.schema["properties"]["verify"]["properties"]["program_vs_artifact"]
    verdicts = [
        ArtifactVerdict("a", "exact", 5, 2, 1, 100, {"x": 1}, {"code_bytes": 3}, "layer 'x'"),
        ArtifactVerdict("b", "bounded", 5, 0, 1),
        ArtifactVerdict("c", "not_run", reason="no compiler"),
    ]
    jsonschema.validate([v.as_json() for v in verdicts], {**schema, "$defs": validator.schema["$defs"]})


def test_cache_trouble_is_no_part_of_the_report(tmp_path: Path, report: dict[str, Any]) -> None:
    """Cold, warm and cacheless runs give the same report; what happened to the cache is in `run.json`."""
    from nnkit.cache import StageCache

    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the cache should be")
    recipe = write_project(tmp_path)
    made = make_build(recipe, StageCache(blocked / "cache"))
    outcome = run(made, tmp_path / "out")
    assert made.cache.notes
    assert outcome.report == report
