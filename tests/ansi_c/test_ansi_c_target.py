"""The ansi_c target from recipe to release; ONNX Runtime is the truth, layer by layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_node import model_of
from onnx import helper
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.builds import open_build
from nnkit.errors import DoesNotFitError, ModelError
from nnkit.rewrite import RewriteLog
from nnkit.target import load_target
from nnkit.verify.artifact import compare_artifact
from nnkit_ansi_c.runner import HostRunner
from tests.end_to_end.networks import Net


def built(folder: Path, options: str = "{}") -> tuple[dict[str, Any], Path]:
    path = write_project(folder)
    path.write_text(path.read_text().replace("gap8: {}", f"ansi_c: {options}"))
    outcome = pipeline.run(make_build(path, target="ansi_c"), folder / "out")
    report: dict[str, Any] = json.loads((outcome.folder / "report.json").read_text())
    return report, outcome.folder


def test_a_build_is_compared_layer_by_layer(tmp_path: Path) -> None:
    report, folder = built(tmp_path)
    assert report["status"] == "ok"
    (verdict,) = report["verify"]["program_vs_artifact"]
    assert (verdict["how"], verdict["contract"], verdict["mismatches"]) == ("host", "bounded", 0)
    assert verdict["values"] > 1000
    assert verdict["max_difference"] < 1e-2
    assert report["details"]["arena_bytes"] == report["memory"]["arena"]["peak_bytes"] > 0
    assert report["memory"]["arena"]["lower_bound_bytes"] <= report["memory"]["arena"]["peak_bytes"]
    assert report["details"]["weight_bytes"] == (folder / "artifact" / "small_weights.bin").stat().st_size
    assert report["macs"] > 0
    assert {row["formats"]["output"] for row in report["layers"]} == {"f32"}


def test_no_two_values_that_live_at_once_share_bytes(tmp_path: Path) -> None:
    """The plan of the build, replayed pair by pair."""
    _, folder = built(tmp_path)
    plan = json.loads((folder / "plan.json").read_text())
    buffers = [each for each in plan["buffers"].values() if each["region"] == "arena"]
    assert len(buffers) > 5
    for index, a in enumerate(buffers):
        for b in buffers[:index]:
            together = max(a["first_step"], b["first_step"]) <= min(a["last_step"], b["last_step"])
            start = max(a["offset_bytes"], b["offset_bytes"])
            end = min(a["offset_bytes"] + a["size_bytes"], b["offset_bytes"] + b["size_bytes"])
            assert not together or start >= end


def test_every_call_touches_what_lives(tmp_path: Path) -> None:
    """A Concat is one call for each part, of which each reads its own alone."""
    net = Net((1, 1, 40, 40))
    parts = [net.node("Transpose", [net.conv("x", 4)], 4, perm=[0, 1, 3, 2]) for _ in range(3)]
    path = write_project(tmp_path)
    path.write_text(path.read_text().replace("gap8: {}", "ansi_c: {}"))
    net.save(tmp_path / "net.onnx", net.conv(net.node("Concat", parts, 12, axis=1), 4))
    outcome = pipeline.run(make_build(path, target="ansi_c"), tmp_path / "out")
    plan = json.loads((outcome.folder / "plan.json").read_text())
    copies = [step for step in plan["steps"] if step["op"].startswith("concat")]
    assert [len(step["reads"]) for step in copies] == [1, 1, 1]
    for step in plan["steps"]:
        for name in (*step["reads"], *step["writes"]):
            buffer = plan["buffers"][plan["tensors"][name]["buffer"]]
            assert buffer["first_step"] <= step["index"] <= buffer["last_step"]


def test_changed_weights_are_noticed_and_the_layer_named(tmp_path: Path) -> None:
    _, folder = built(tmp_path)
    weights = folder / "artifact" / "small_weights.bin"
    values = np.frombuffer(weights.read_bytes(), "<f4").copy()
    values[:4] += 0.5
    weights.write_bytes(values.tobytes())
    program = open_build(folder).program
    given = {name: np.full(program.tensors[name].shape, 100.0, np.float32) for name in program.inputs}
    verdict = compare_artifact(HostRunner(), folder / "artifact", program, [given])
    assert verdict.mismatches > 0
    assert verdict.first_difference.startswith("layer ")


def test_an_arena_that_is_too_small_is_told_with_the_layer(tmp_path: Path) -> None:
    with pytest.raises(DoesNotFitError) as caught:
        built(tmp_path, "{arena: 1KiB}")
    assert "the peak is at layer" in caught.value.reason
    assert "set `arena` to at least" in caught.value.remedy


def test_layers_without_c_are_named_all_at_once() -> None:
    target = load_target("ansi_c")
    nodes = [helper.make_node("Cos", ["x"], ["a"], name="strange"), helper.make_node("Sin", ["a"], ["y"], name="odd")]
    model = model_of(nodes, {"x": (1, 3, 8, 8)}, {}, ["y"])
    with pytest.raises(ModelError) as caught:
        target.lower(model, RewriteLog(), target.options())
    assert "strange (Cos)" in caught.value.reason
    assert "odd (Sin)" in caught.value.reason


def test_limits_are_those_of_the_kernels() -> None:
    (_, operators, *_) = load_target("ansi_c").limits()
    assert "Conv," in operators
    assert "Sin" not in operators


@pytest.mark.parametrize("name", ["x", "k"])
def test_an_output_that_no_layer_makes_is_refused(name: str) -> None:
    target = load_target("ansi_c")
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = model_of(nodes, {"x": (1, 3)}, {"k": np.ones((1, 3), np.float32)}, ["y", name])
    with pytest.raises(ModelError, match=f"'{name}' does not depend on any layer"):
        target.lower(model, RewriteLog(), target.options())


def test_elements_picked_unevenly_are_picked_in_float(tmp_path: Path) -> None:
    """By a table of their places: no convolution picks them."""
    path = write_project(tmp_path)
    path.write_text(path.read_text().replace("gap8: {}", "ansi_c: {}"))
    net = Net((1, 1, 40, 40))
    picked = net.node("Gather", [net.conv("x", 4), net.constant(np.int64([3, 0, 2, 2]), "indices")], 4, axis=1)
    net.save(tmp_path / "net.onnx", picked)
    outcome = pipeline.run(make_build(path, target="ansi_c"), tmp_path / "out")
    report = json.loads((outcome.folder / "report.json").read_text())
    (verdict,) = report["verify"]["program_vs_artifact"]
    assert (report["status"], verdict["mismatches"]) == ("ok", 0)
    assert all(rewrite["name"] != "gather_to_conv" for rewrite in report["rewrites"])
