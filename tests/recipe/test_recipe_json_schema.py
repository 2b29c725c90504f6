"""The JSON Schema against an independent validator: it takes what the loader takes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from nnkit.recipe import recipe_json_schema, resolved_yaml
from nnkit.recipe.document import load_document


@pytest.fixture
def validator(target_models) -> jsonschema.Draft202012Validator:
    schema = recipe_json_schema(target_models)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


GOOD = """\
nnkit: 1
name: a
model:
  path: net.onnx
  simplify: "${S}"
  inputs:
    i:
      shape: [1, "${C}", 8, 8]
      preprocess: {crop: center, mean: 3, scale: [1.0, "${G:-2}", 3], resize: {size: [8, 8]}}
      calibration: {images: [a.pgm, b.pgm]}
restructure: []
tags: {hp: auto}
targets: {toy: {cores: "${N}", memory: {l1: 1.5KiB, l2: 300}, formats: f.json, order: [1]}, other: null}
postprocess: [{kind: face_crop, size: [8, 8]}, {kind: match, threshold: 3}]
verify: {images: {i: x.pgm}, gates: {max_abs: 1e-3}}
"""
ENVIRON = {"S": "true", "C": "3", "N": "2"}


def test_good_recipes_satisfy_it(validator, load) -> None:
    text = GOOD.replace("{kind: face_crop, size: [8, 8]}, ", "")
    recipe = load(text, environ=ENVIRON)
    as_written = load_document("recipe.yaml", environ={name: "${" + name + "}" for name in ENVIRON}).data
    as_written["model"]["inputs"]["i"]["preprocess"]["scale"][1] = "${G:-2}"
    assert list(validator.iter_errors(as_written)) == []
    recipe_text = resolved_yaml(recipe)
    load(recipe_text, environ=ENVIRON)
    assert list(validator.iter_errors(load_document("recipe.yaml", environ=ENVIRON).data)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("nmae",), "x"),
        (("name",), "a/b"),
        (("nnkit",), 2),
        (("model", "simplify"), "yes"),
        (("model", "inputs", "i", "shape"), [1, 0, 8, 8]),
        (("model", "inputs", "i", "preprocess", "color"), "grey"),
        (("model", "inputs", "i", "preprocess", "scale"), 0),
        (("model", "inputs", "i", "preprocess", "resize", "size"), [8]),
        (("model", "inputs", "i", "calibration", "images"), []),
        (("targets",), {}),
        (("targets", "third"), {}),
        (("targets", "toy", "cores"), 9),
        (("targets", "toy", "cores"), "nine"),
        (("targets", "toy", "memory", "l1"), "64kb"),
        (("postprocess", 0, "kind"), "other"),
        (("verify", "gates", "cosine"), 1.5),
        (("release",), {"version": "1.0"}),
    ],
)
def test_it_refuses_what_the_loader_refuses(validator, load, path: tuple[Any, ...], value: Any) -> None:
    load(GOOD.replace("{kind: face_crop, size: [8, 8]}, ", ""), environ=ENVIRON)
    data = load_document("recipe.yaml", environ=ENVIRON).data
    data["model"]["inputs"]["i"]["shape"][1] = 3
    data["targets"]["toy"]["cores"] = 2
    data["model"]["simplify"] = True
    parent = data
    for part in path[:-1]:
        parent = parent[part]
    assert validator.is_valid({**data, "model": {"path": "a.onnx"}})
    parent[path[-1]] = value
    assert not validator.is_valid(data)
    with pytest.raises(Exception, match=r"recipe.yaml") as caught:
        load(json.dumps(data))
    assert type(caught.value).__name__ == "InvalidRecipeError"


def test_every_field_of_the_core_is_described(target_models) -> None:
    schema = recipe_json_schema(target_models)
    ours = {
        name: d
        for name, d in schema["$defs"].items()
        if name not in ("Memory", "ToyOptions", "Plugged", "OtherOptions")
    }
    sections = {"recipe": schema, **ours}
    missing = [
        f"{name}.{key}"
        for name, section in sections.items()
        for key, field in section.get("properties", {}).items()
        if "description" not in field and "description" not in ours.get(field.get("$ref", "").rpartition("/")[2], {})
    ]
    assert missing == []
    assert "properties" in schema["$defs"]["Preprocess"]


def test_it_is_json_and_the_same_each_time(target_models) -> None:
    text = json.dumps(recipe_json_schema(target_models))
    assert text == json.dumps(recipe_json_schema(dict(reversed(target_models.items()))))


def test_plugins_with_equal_class_names_do_not_mix() -> None:
    from pydantic import create_model

    from nnkit.recipe import TargetOptionsBase

    one = create_model("Options", __base__=TargetOptionsBase, __module__="one", a=(int, 1))
    two = create_model("Options", __base__=TargetOptionsBase, __module__="two", b=(int, 1))
    validator = jsonschema.Draft202012Validator(recipe_json_schema({"one": one, "two": two}))
    base = {"nnkit": 1, "name": "a", "model": {"path": "a.onnx"}}
    assert validator.is_valid({**base, "targets": {"one": {"a": 2}, "two": {"b": 2}}})
    assert not validator.is_valid({**base, "targets": {"one": {"b": 2}}})
