"""Errors by layer: by hand, and against the affine quantiser's own diagnosis."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_project import RECIPE, make_build, write_project
from typer.testing import CliRunner

from nnkit import pipeline
from nnkit.builds import open_build
from nnkit.cli import app
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.layer_error import ranks
from nnkit.program import Activation, Fixed, OutputStage, Program, Tensor, with_names
from nnkit.quantize.affine.diagnose import diagnose
from nnkit.quantize.lowering import lower
from nnkit.samples import Sample
from nnkit.serialize import encode
from nnkit.verify.layer_errors import layer_errors


def two_relus() -> tuple[Model, Program]:
    """`a` keeps a fraction bit less than x has, `b` reads it in the same format and adds nothing."""
    shapes = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xyz"}
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="a"), helper.make_node("Relu", ["y"], ["z"], name="b")]
    graph = helper.make_graph(nodes, "g", [shapes["x"]], [shapes["z"]])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = Model(proto.SerializeToString(), LayerTags(), (InputSpec("x", (1, 4)),), (OutputSpec("z", (1, 4)),), 21)
    tensors = {
        "x": Tensor("x", (4,), Fixed(8, 2), -128, 127),
        "y": Tensor("y", (4,), Fixed(8, 1), 0, 6),
        "z": Tensor("z", (4,), Fixed(8, 1), 0, 6),
    }
    ops = (
        Activation(name="a", inputs=("x",), output="y", stage=OutputStage(1, 0, 6)),
        Activation(name="b", inputs=("y",), output="z", stage=OutputStage(0, 0, 6)),
    )
    return model, Program("p", tensors, ops, ("x",), ("z",), "nnkit.program.fixed")


def test_two_layers_by_hand() -> None:
    model, program = two_relus()
    # In units of 1: x is exact; y is stored in halves, half up, and clipped at 3.
    given = np.asarray([[0.25, 1.0, -1.0, 3.5]], np.float32)
    first, second = layer_errors(model, program, [Sample("hand", {"x": given})])
    # y: 0.5 for 0.25, 1, 0 and 3 for 3.5: error 0.0625 + 0.25 of 0.0625 + 1 + 12.25
    own = 10 * math.log10(13.3125 / 0.3125)
    assert (first.isolated_db, first.cumulative_db) == pytest.approx((own, own))
    assert first.clip_rate == 0.0 + 1 / 4  # 3.5 is more than a quarter beyond 3
    # z reads y as it is stored, whoever made it: the same numbers again.
    assert (second.isolated_db, second.cumulative_db) == pytest.approx((own, own))
    assert ranks([first, second]) == {"a": 1, "b": 2}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnosed")
    write_project(folder, RECIPE.replace("gap8: {}", "gap8: {precision: int8}\n  onnx_qdq: {}"))
    for target in ("gap8", "onnx_qdq"):
        pipeline.run(make_build(folder / "recipe.yaml", target=target), folder / "out")
    return folder


def test_the_affine_diagnosis_says_the_same(built: Path) -> None:
    build = open_build(built / "out/small/onnx_qdq")
    network, kept = build.model("restructured.onnx"), build.kept_inputs()
    found = {each.value: each for each in layer_errors(network, build.program, [Sample("", k) for k in kept])}
    stacked = {name: np.concatenate([given[name] for given in kept]) for name in kept[0]}
    for other in diagnose(lower(network), build.program, stacked):  # type: ignore[arg-type]
        if other.value not in found:
            continue  # a value of the program alone
        mine = found.pop(other.value)
        assert mine.cumulative_db == pytest.approx(other.cumulative_db, abs=1e-3)
        if mine.isolated_db is not None:
            assert mine.isolated_db == pytest.approx(other.isolated_db, abs=1e-3)
        assert mine.clip_rate == pytest.approx(other.clip_rate, abs=1e-4)
    assert not found


def test_the_command_shows_every_layer_and_the_gap(built: Path) -> None:
    folder = built / "out/small/gap8"
    globs = ["--images", str(built / "images/*.png"), "--calibration", str(built / "images/*.png")]
    done = CliRunner().invoke(app, ["diagnose", str(folder), *globs, "--json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.output)
    layers = [op.name for op in open_build(folder).program.ops]
    assert [row["layer"] for row in data["layers"]] == layers
    assert (data["samples"], data["not_listed"]) == (3, [])
    assert {row["gap_db"] for row in data["layers"]} <= {0.0, None}, "the same images on both sides"
    shown = CliRunner().invoke(app, ["diagnose", str(folder)]).output
    assert all(name in shown for name in layers)
    worst = next(row for row in data["layers"] if row["rank"] == 1)
    assert f"weakest by themselves, on 3 inputs: {worst['layer']} (" in shown


def test_layers_with_values_of_their_own_are_counted(built: Path, tmp_path: Path) -> None:
    """As a correction leaves them that scales channels."""
    shutil.copytree(built / "out/small/onnx_qdq", tmp_path / "scaled")
    program = open_build(tmp_path / "scaled").program
    op = program.ops[0]
    renamed = with_names(program, {op.output: f"{op.output}.balanced"})
    (tmp_path / "scaled" / "program.nnkit").write_bytes(encode(renamed))
    report = json.loads((tmp_path / "scaled" / "report.json").read_text())
    report["stages"]["program.nnkit"]["sha256"] = hashlib.sha256(encode(renamed)).hexdigest()
    (tmp_path / "scaled" / "report.json").write_text(json.dumps(report))
    done = CliRunner().invoke(app, ["diagnose", str(tmp_path / "scaled")])
    assert done.exit_code == 0, done.output
    fused = [op.name for op in program.ops if op.output.endswith(".before_pool")]  # pools that were moved
    assert f"not listed: {1 + len(fused)} of {len(program.ops)} layers" in done.output
    data = json.loads(CliRunner().invoke(app, ["diagnose", str(tmp_path / "scaled"), "--json"]).output)
    assert data["not_listed"] == [op.name, *fused]


def test_a_glob_that_matches_nothing_is_named(built: Path) -> None:
    done = CliRunner().invoke(app, ["diagnose", str(built / "out/small/gap8"), "--images", "no/*.png"])
    assert "no/*.png" in str(done.exception)
