"""Entries of `restructure`: names, names with options, and messages at the right place."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from nnkit.recipe import load_recipe, recipe_json_schema, resolved_yaml
from nnkit.recipe.problems import InvalidRecipeError
from nnkit.recipe.sections import TargetOptionsBase
from nnkit.rewrite import entry_key, known_names

HEAD = "nnkit: 1\nname: n\nmodel: {path: m.onnx}\ntargets: {t: {}}\n"
MODELS = {"t": TargetOptionsBase}


def load(folder, text):
    path = folder / "recipe.yaml"
    path.write_text(HEAD + text)
    return load_recipe(path, target_models=MODELS, known_rules=known_names())


def test_names_and_options(tmp_path):
    recipe = load(
        tmp_path,
        "restructure:\n"
        "  - fold_batch_norm\n"
        "  - norm_from_concat: {reduce: mean, a: 1.0}\n"
        "  - replace_tail: {at: feat, tail: [{kind: norm}, {kind: pca, file: p.npz, hp: true}]}\n"
        "  - strip_var: {layers: aux_*}\n",
    )
    plain, norm, tail, strip = recipe.restructure_for("t")
    assert plain == "fold_batch_norm"
    assert (norm.name, norm.options.reduce, norm.options.a) == ("norm_from_concat", "mean", 1.0)
    assert [layer.kind for layer in tail.options.tail] == ["norm", "pca"]
    assert tail.options.tail[1].file.file == tmp_path / "p.npz"
    assert strip.options.layers == ("aux_*",)


def test_the_resolved_recipe_loads_to_the_same(tmp_path):
    text = "restructure: [fold_scale, {add_pca: {file: p.npz}}, {keep_output: {outputs: [a, b]}}]\n"
    recipe = load(tmp_path, text)
    written = resolved_yaml(recipe)
    section = written.partition("\nrestructure:")[2].split("\ntags:")[0]
    again = load(tmp_path, f"restructure:{section}\n")
    assert again.restructure == recipe.restructure
    assert "replace_tail" not in written


@pytest.mark.parametrize(
    ("text", "place", "message", "remedy"),
    [
        ("restructure: [add_pca]", "5:15", "the rule 'add_pca' cannot be without file", "`add_pca: {file: ...}`"),
        ("restructure: [ad_pca]", "5:15", "there is no rewrite rule 'ad_pca'", "did you mean 'add_pca'"),
        ("restructure: [{ad_pca: {}}]", "5:16", "unknown key 'ad_pca'", "did you mean 'add_pca'"),
        ("restructure: [{add_pca: {file: x, nam: y}}]", "5:35", "unknown key 'nam'", "did you mean 'name'?"),
        ("restructure: [{add_pca: {}}]", "5:16", "the key 'file' is missing", "`file: pca.npz`"),
        ("restructure: [{norm_from_concat: {reduce: men}}]", "5:43", "'reduce' must be sum or mean", "'mean'"),
        ("restructure: [{norm_from_concat: {a: -1}}]", "5:38", "'a' must be at least 0", "at least 0"),
        ("restructure: [{norm_from_concat: {}, keep_output: {outputs: a}}]", "5:51", "has one rule", "its own"),
        ("restructure: [{}]", "5:15", "but none stands here", "its own"),
        ("restructure: [{fold_scale: {}}]", "5:16", "unknown key 'fold_scale'", "known keys"),
        (
            "restructure: [{replace_tail: {at: x, tail: [{kind: nrm}]}}]",
            "5:52",
            "'kind' must be norm, pca or softmax",
            "did you mean 'norm'?",
        ),
        ("restructure: [fold_scale, fold_scale]", "5:27", "the rule 'fold_scale' is listed twice", "keep one"),
        ("restructure: [3]", "5:15", "must be", ""),
    ],
)
def test_messages(tmp_path, text, place, message, remedy):
    with pytest.raises(InvalidRecipeError) as caught:
        load(tmp_path, text + "\n")
    (problem,) = caught.value.problems
    assert problem.where.endswith(f"recipe.yaml:{place}"), problem
    assert message in problem.reason
    assert remedy in problem.remedy


def test_the_same_rule_with_other_options_may_come_twice(tmp_path):
    recipe = load(tmp_path, "restructure: [{add_pca: {file: a.npz}}, {add_pca: {file: b.npz, name: b}}]\n")
    assert len(recipe.restructure) == 2


def test_the_schema_shows_every_option():
    schema = recipe_json_schema(MODELS)
    entry = schema["$defs"]["RuleEntry"]["properties"]
    assert {"norm_from_concat", "split_full_face_pca", "merge_components"} <= set(entry)
    assert set(schema["$defs"]["NormFromConcat"]["properties"]) == {"reduce", "a"}


def test_the_cache_key_changes_with_the_file(tmp_path):
    recipe = load(tmp_path, "restructure: [{add_pca: {file: p.npz}}]\n")
    np.savez(tmp_path / "p.npz", mean=np.zeros(2), matrix=np.eye(2))
    first = entry_key(recipe.restructure[0])
    assert first == entry_key(recipe.restructure[0])
    np.savez(tmp_path / "p.npz", mean=np.ones(2), matrix=np.eye(2))
    assert entry_key(recipe.restructure[0]) != first


def test_the_cache_key_changes_with_the_data_beside_a_component(tmp_path):
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [512]) for name in ("x", "y")]
    weights = onnx.numpy_helper.from_array(np.zeros(512, np.float32), "w")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "part", values[:1], values[1:], [weights]))
    onnx.save(model, tmp_path / "part.onnx", save_as_external_data=True, location="part.bin", size_threshold=0)
    recipe = load(tmp_path, "restructure: [{merge_components: {components: [{model: part.onnx, inputs: [a, b]}]}}]\n")
    first = entry_key(recipe.restructure[0])
    (tmp_path / "part.bin").write_bytes(np.ones(512, np.float32).tobytes())
    assert entry_key(recipe.restructure[0]) != first
