"""What a refusal proposes does, when it is followed as it is written."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.errors import LayersNotTakenError
from nnkit.target import RunResult
from nnkit_ansi_c.runner import HostRunner


def _recipe(folder: Path, tail: list[tuple[str, str, dict[str, Any]]], targets: str, more: str = "") -> Path:
    """A network of two convolutions with Relu and `tail` behind them: operator, name, attributes."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.3, (4, channels, 3, 3)).astype(np.float32), name)
        for name, channels in (("w", 2), ("v", 4))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c1"], name="c1", pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"], name="r1"),
        helper.make_node("Conv", ["r1", "v"], ["c2"], name="c2", pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"], name="r2"),
    ]
    for op, name, attributes in tail:
        nodes.append(helper.make_node(op, [nodes[-1].output[0]], [name], name=name, **attributes))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 8, 8))],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        weights,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "net.onnx"
    )
    path = folder / "recipe.yaml"
    path.write_text(f"nnkit: 1\nname: net\nmodel: {{path: net.onnx}}\ntargets: {{{targets}}}\n{more}")
    return path


def _refused(recipe: Path) -> LayersNotTakenError:
    done = CliRunner().invoke(app, ["plan", str(recipe)])
    assert isinstance(done.exception, LayersNotTakenError), done.output
    return done.exception


def _proposed(error: LayersNotTakenError, key: str) -> str:
    (line,) = [line.strip() for line in error.remedy.split("\n") if line.strip().startswith(f"{key}:")]
    return line.split("   ")[0]


LRN, HARDMAX = ("LRN", "n1", {"size": 3}), ("Hardmax", "e1", {"axis": 1})


@pytest.mark.parametrize("target", ["gap8: {}", "tpu: {chip: bm1684x}", "ansi_c: {}", "nnie: {chip: hi3516cv500}"])
def test_the_end_that_is_proposed_is_taken(target: str, tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, [LRN, HARDMAX], target)
    error = _refused(recipe)
    assert "e1" in error.layers
    assert "\\n" not in error.remedy, "its lines are lines"
    takers = [line.strip() for line in error.remedy.split("\n") if "take the network as it is" in line]
    assert len(takers) <= 1
    assert all("onnx_qdq: take" in line for line in takers), "it alone has the operator, in float"
    (cut,) = [line for line in error.remedy.split("\n") if "ends the network before them" in line]
    assert "it loses e1, which the host computes from " in cut
    listed = error.remedy.partition(":\n    ")[0].rpartition("; ")[2]
    assert listed == ("tried, and each of these does" if takers else "or less than the file gives")
    assert cut == error.remedy.split("\n")[-1], "what keeps all outputs comes first"
    assert "\\n" not in str(error), "each list has lines of its own"
    recipe.write_text(recipe.read_text() + _proposed(error, "restructure") + "\n")
    done = CliRunner().invoke(app, ["plan", str(recipe)])
    assert done.exit_code == 0, done.output


def test_a_cut_keeps_outputs_that_no_refused_layer_makes_and_says_only_what_there_is(tmp_path: Path) -> None:
    body = "a = Mul(x, x) b = Mul(a, x) kept = Relu(b) lost = CumSum(b, axis)"
    size = "float[1, 2, 4, 4]"
    head = '<ir_version: 8, opset_import: ["": 17]>'
    given = f"net ({size} x) => ({size} kept, {size} lost) <int64 axis = {{1}}>"
    onnx.save(onnx.parser.parse_model(f"{head} {given} {{ {body} }}"), tmp_path / "net.onnx")
    recipe = tmp_path / "recipe.yaml"
    text = "nnkit: 1\nname: net\nmodel: {path: net.onnx}\ntargets: {ansi_c: {}}\n"
    recipe.write_text(text)
    cut = next(line for line in _refused(recipe).remedy.splitlines() if "ends the network" in line)
    assert cut.endswith("it loses lost, which the host computes from b")
    recipe.write_text(f"{text}{cut.strip().partition('   ')[0]}\n")
    planned = CliRunner().invoke(app, ["plan", str(recipe)])
    assert planned.exit_code == 0, planned.output
    onnx.save(
        onnx.parser.parse_model(f"{head} {given} {{ {body.replace('(b, axis)', '(x, axis)')} }}"),
        tmp_path / "net.onnx",
    )
    recipe.write_text(text)
    cut = next(line for line in _refused(recipe).remedy.splitlines() if "ends the network" in line)
    assert cut.endswith("it loses lost")


def test_the_targets_that_are_proposed_take_it(tmp_path: Path) -> None:
    error = _refused(_recipe(tmp_path, [LRN], "tpu: {chip: bm1684x}"))
    lines = [line for line in error.remedy.split("\n") if "take the network as it is" in line]
    named = [
        each for line in lines for each in line.strip().removeprefix("targets: ").split(": take")[0].split(" or ")
    ]
    assert {re.sub(r" \(.*", "", name) for name in named} == {"ansi_c", "gap8", "nnie", "onnx_qdq"}
    for target in ("ansi_c: {}", "gap8: {}", "nnie: {chip: hi3516cv500}", "onnx_qdq: {}"):
        assert CliRunner().invoke(app, ["plan", str(_recipe(tmp_path, [LRN], target))]).exit_code == 0


def test_a_rewrite_that_the_recipe_leaves_out_is_proposed(tmp_path: Path) -> None:
    """Without `remove_identity` the Dropout stays, which the target does not know."""
    recipe = _recipe(tmp_path, [("Dropout", "d1", {}), ("Relu", "r3", {})], "gap8: {}", "restructure: []\n")
    text = recipe.read_text()
    recipe.write_text(text.replace("net.onnx", "net.onnx, simplify: false"))
    line = _proposed(_refused(recipe), "restructure")
    assert line == "restructure: [..., remove_identity]"
    recipe.write_text(recipe.read_text().replace("restructure: []", line.replace("..., ", "")))
    done = CliRunner().invoke(app, ["plan", str(recipe)])
    assert done.exit_code == 0, done.output


def test_the_cpu_is_proposed_where_it_takes_the_layers(tmp_path: Path) -> None:
    """The NNIE puts no row in a channel's place; its CPU does."""
    recipe = _recipe(tmp_path, [("Transpose", "p1", {"perm": [0, 2, 1, 3]})], "nnie: {chip: hi3516cv500}")
    error = _refused(recipe)
    line = _proposed(error, "tags")
    assert yaml.safe_load(line) == {"tags": {"cpu": ["p1"]}}
    recipe.write_text(recipe.read_text() + line + "\n")
    done = CliRunner().invoke(app, ["plan", str(recipe)])
    assert done.exit_code == 0, done.output


def test_the_default_set_is_an_entry(tmp_path: Path) -> None:
    """It stands for what `null` stands for, and a rewrite that is named beside it comes once."""
    recipe = _recipe(tmp_path, [], "gap8: {}")
    without = CliRunner().invoke(app, ["plan", str(recipe)]).stdout
    recipe.write_text(recipe.read_text() + "restructure: [default]\n")
    assert CliRunner().invoke(app, ["plan", str(recipe)]).stdout == without
    recipe.write_text(recipe.read_text().replace("[default]", "[default, fuse_pool]"))
    assert CliRunner().invoke(app, ["plan", str(recipe)]).exit_code == 0


def test_an_option_is_proposed_where_the_target_takes_more_with_it(tmp_path: Path) -> None:
    """Six layers for the NNIE with one for the CPU behind each: more segments than a network may have."""
    layers: list[tuple[str, str, dict[str, Any]]] = []
    for index in range(5):
        layers += [("Neg", f"m{index}", {}), ("LRN", f"n{index}", {"size": 3})]
    options = "chip: hi3516cv500, custom: [m0, m1, m2, m3, m4], join_segments: none"
    recipe = _recipe(tmp_path, layers, f"nnie: {{{options}}}")
    error = _refused(recipe)
    assert "at most 8 segments" in error.reason
    (line,) = [line for line in error.remedy.split("\n") if "beside what is there" in line]
    assert yaml.safe_load(line.split("   beside")[0]) == {"targets": {"nnie": {"join_segments": "any"}}}
    recipe.write_text(recipe.read_text().replace("join_segments: none", "join_segments: any"))
    done = CliRunner().invoke(app, ["plan", str(recipe)])
    assert done.exit_code == 0, done.output


def test_another_precision_is_proposed_where_it_takes_the_network(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, [("Floor", "f1", {})], "ansi_c: {precision: int8}")
    line = _proposed(_refused(recipe), "targets: {ansi_c")
    assert yaml.safe_load(line) == {"targets": {"ansi_c": {"precision": "float32"}}}
    recipe.write_text(recipe.read_text().replace("targets: {ansi_c: {precision: int8}}", line))
    done = CliRunner().invoke(app, ["plan", str(recipe)])
    assert done.exit_code == 0, done.output


def test_what_does_not_run_is_not_proposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another target takes the layers; an artifact of it that computes something else is no remedy."""
    recipe = _recipe(tmp_path, [LRN], "tpu: {chip: bm1684x}")
    told = _refused(recipe).remedy
    assert "tried, and each of these does" in told
    assert "ansi_c" in told.partition("tried, and each of these does")[2]

    def other_values(self: object, *arguments: object, **named: object) -> list[RunResult]:
        results = HostRunner.right(self, *arguments, **named)  # type: ignore[attr-defined]
        return [replace(each, outputs={name: value + 1 for name, value in each.outputs.items()}) for each in results]

    monkeypatch.setattr(HostRunner, "right", HostRunner.run, raising=False)
    monkeypatch.setattr(HostRunner, "run", other_values)
    assert "ansi_c" not in _refused(recipe).remedy


def test_a_division_that_needs_a_comparison_is_not_cut_first(shared_dir: Path, tmp_path: Path) -> None:
    """Before Equal and Where a cut leaves a value that nobody asked for."""
    path = shared_dir / "cases/onnx/g_div_no_nan.onnx"
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"nnkit: 1\nname: net\nmodel: {{path: {path}}}\ntargets: {{gap8: {{}}}}\n")
    remedy = _refused(recipe).remedy
    first = remedy.partition(":\n    ")[2].partition("\n")[0]
    if "ends the network" in first:  # nothing keeps all of it: then it is not called a way that does
        assert "each of these does" not in remedy
        assert "or less than the file gives" in remedy
    assert "it loses out, which" in remedy
