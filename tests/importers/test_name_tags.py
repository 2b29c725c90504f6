"""Tags are followed through the tools of an import, and none is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnkit.errors import ExitCode, ModelError
from nnkit.importers import ImportOptions, TagGlobError, TagGlobs, import_onnx
from nnkit.importers.name_tags import follow_tags, lift_tags

WEIGHT = np.random.default_rng(1).standard_normal((4, 4, 3, 3)).astype(np.float32)


def _conv(source: str, output: str, name: str) -> onnx.NodeProto:
    return helper.make_node("Conv", [source, "w"], [output], name=name, pads=[1, 1, 1, 1])


def _relu(source: str, output: str, name: str) -> onnx.NodeProto:
    return helper.make_node("Relu", [source], [output], name=name)


def test_a_tag_that_another_layer_takes_over_is_noted() -> None:
    """A tool that drops a layer which computes nothing lets the one before it give the result."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in ("x", "y")]
    before = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Identity", ["r"], ["y"], name="i"),
    ]
    after = [helper.make_node("Relu", ["x"], ["y"], name="relu")]
    tagged = lift_tags(helper.make_graph(before, "g", infos[:1], infos[1:]), TagGlobs(hp=("i",)))
    tags, notes = follow_tags(tagged, helper.make_graph(after, "g", infos[:1], infos[1:]), "net.onnx")
    assert tags.of("y").hp
    assert notes == ("the tag of layer 'i' holds for 'relu', which gives its result now",)


def test_tags_from_names_and_globs_are_keyed_by_value(make_model: Any, save: Any) -> None:
    nodes = [
        _conv("x", "a", "/stem_hp/Conv"),
        _relu("a", "b", "act"),
        _conv("b", "y_out", ""),
        _relu("y_out", "y", "z_cpu"),
    ]
    globs = TagGlobs(hp=("y_*",), cpu=("act", "/stem*"))
    tags = import_onnx(save(make_model(nodes, {"w": WEIGHT})), ImportOptions(tag_globs=globs)).model.tags
    assert (tags.of("a").hp, tags.of("a").cpu, tags.of("a").origins) == (True, True, ("/stem_hp/Conv",))
    assert (tags.of("b").hp, tags.of("b").cpu) == (False, True)
    assert (tags.of("y_out").hp, tags.of("y_out").origins) == (True, ("y_out",))
    assert (tags.of("y").hp, tags.of("y").cpu) == (False, True)


def test_tags_follow_layers_that_conversion_rewrites(make_model: Any, save: Any) -> None:
    scales = np.array([1, 1, 2, 2], np.float32)
    nodes = [
        helper.make_node("Upsample", ["x", "scales"], ["u"], name="up_cpu", mode="nearest"),
        helper.make_node("Softmax", ["u"], ["y"], name="soft_hp", axis=1),
    ]
    model = import_onnx(save(make_model(nodes, {"scales": scales}, opset=9))).model
    by_name = {node.name: node for node in model.proto().graph.node}
    assert by_name["up_cpu"].op_type == "Resize"
    assert model.tags.of("u").cpu
    assert by_name["soft_hp"].op_type == "Softmax"
    assert model.tags.of(by_name["soft_hp"].output[0]).hp


def test_a_glob_that_matches_nothing_lists_near_names(make_model: Any, save: Any) -> None:
    path = save(make_model([_conv("x", "a", "features_conv1"), _relu("a", "y", "Act")], {"w": WEIGHT}))
    globs = TagGlobs(hp=("Act", "feature_conv*"), where=lambda tag, index: f"r.yaml:{tag}:{index}")
    with pytest.raises(TagGlobError, match="matches no layer") as caught:
        import_onnx(path, ImportOptions(tag_globs=globs))
    error = caught.value
    assert (error.where, error.glob, error.exit_code) == ("r.yaml:hp:1", "feature_conv*", ExitCode.USER)
    assert "'features_conv1'" in error.remedy
    with pytest.raises(TagGlobError) as caught:
        import_onnx(path, ImportOptions(tag_globs=TagGlobs(cpu=("act",))))
    assert "'Act'" in caught.value.remedy


def test_a_tag_on_what_folds_away_is_an_error(make_model: Any, save: Any) -> None:
    nodes = [
        helper.make_node("Exp", ["k"], ["e"], name="table_hp"),
        helper.make_node("Mul", ["x", "e"], ["y"], name="m"),
    ]
    path = save(make_model(nodes, {"k": np.ones((4, 1, 1), np.float32)}))
    with pytest.raises(ModelError, match=r"'table_hp' \(hp by name 'table_hp'\)"):
        import_onnx(path)
    with pytest.raises(ModelError, match=r"'table_hp'.*hp by glob 'tab\*'"):
        import_onnx(path, ImportOptions(tag_globs=TagGlobs(hp=("tab*",))))
    assert import_onnx(path, ImportOptions(simplify=False)).model.tags.of("e").hp


def test_a_tagged_layer_that_reaches_no_output_is_an_error(make_model: Any, save: Any) -> None:
    nodes = [_relu("x", "dead", "left_cpu"), _relu("x", "y", "r")]
    with pytest.raises(ModelError, match="left_cpu"):
        import_onnx(save(make_model(nodes)))


def test_a_modules_shape_arithmetic_may_fold_while_its_layer_keeps_the_tag(make_model: Any, save: Any) -> None:
    nodes = [
        _conv("x", "a", "/head_hp/Conv"),
        helper.make_node("Shape", ["a"], ["s"], name="/head_hp/Shape"),
        helper.make_node("Gather", ["s", "first"], ["n"], name="/head_hp/Gather"),
        helper.make_node("Concat", ["n", "rest"], ["target"], name="/head_hp/Concat", axis=0),
        helper.make_node("Reshape", ["a", "target"], ["y"], name="reshape"),
    ]
    constants = {"w": WEIGHT, "first": np.array([0], np.int64), "rest": np.array([-1], np.int64)}
    result = import_onnx(save(make_model(nodes, constants)))
    assert [node.name for node in result.model.proto().graph.node] == ["/head_hp/Conv", "reshape"]
    assert result.model.tags.of("a").hp
    assert sum("folded away" in note for note in result.notes) == 3
