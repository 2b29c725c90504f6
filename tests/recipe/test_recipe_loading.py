"""Good recipes: what they mean, where their paths lead, what variables do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recipe_text import with_values

from nnkit.errors import NnkitError
from nnkit.recipe import InvalidRecipeError, RecipePath, load_recipe

Write = Callable[[str, str], Path]

DESIGN = """\
nnkit: 1
name: gap8_reid
model:
  path: reid.onnx
  inputs:
    image:
      shape: [1, 1, 128, 128]
      preprocess: {color: gray, crop: null, flip: false, resize: {size: [128, 128], filter: bilinear}, mean: 0}
      calibration: {images: faces/*.pgm, count: 100}
restructure: [fold_batch_norm, fold_input_normalization, fc_to_conv]
tags: {hp: [fc_pca], cpu: ["*_permute"]}
calibration: {method: max}
targets:
  toy: {precision: int16, memory: {l1: 64KiB, l2: 512KiB}, cores: 8}
  other:
postprocess:
  - {kind: face_crop, size: [128, 128], frame: [240, 320]}
  - {kind: match, threshold: 1e1}
verify: {images: held_out/*.pgm, gates: {cosine: 0.999}}
release: {version: 1.0.0}
"""


def test_the_recipe_of_the_design(load) -> None:
    recipe = load(DESIGN)
    image = recipe.model.inputs["image"]
    assert recipe.name == "gap8_reid"
    assert recipe.model.format == "onnx"
    assert image.shape == (1, 1, 128, 128)
    assert (image.preprocess.color, image.preprocess.mean, image.preprocess.scale) == ("gray", (0.0,), (1.0,))
    assert image.preprocess.resize.size == (128, 128)
    assert image.calibration.images == (RecipePath.of("faces/*.pgm"),)
    assert recipe.tags.hp == ("fc_pca",)
    assert recipe.targets["toy"].memory.l2 == 524288
    assert list(recipe.targets) == ["toy", "other"]
    assert recipe.calibration.headroom == 1.25
    assert [stage.kind for stage in recipe.postprocess] == ["face_crop", "match"]
    assert recipe.postprocess[1].threshold == 10.0
    assert recipe.verify.gates.limits() == {"cosine": 0.999}
    assert recipe.verify.globs_for("image") == (RecipePath.of("held_out/*.pgm"),)
    assert recipe.release.version == "1.0.0"
    assert recipe.where("tags", "hp", 0) == "recipe.yaml:11:13"
    assert recipe.where("tags", "hp", 7, "x") == "recipe.yaml:11:12"
    assert recipe.file == "recipe.yaml"
    assert [path.name for path in recipe.sources] == ["recipe.yaml"]


def test_everything_is_frozen(load) -> None:
    recipe = load(DESIGN)
    with pytest.raises(ValueError, match="frozen"):
        recipe.name = "other"
    with pytest.raises(ValueError, match="frozen"):
        recipe.targets["toy"].cores = 1


def test_targets_override_whole_sections(load, minimal: str) -> None:
    recipe = load(
        minimal.replace("toy: {}", "toy: {tags: {hp: [a]}, restructure: [], calibration: {method: mse}}\n  other:")
    )
    assert recipe.tags_for("toy").hp == ("a",)
    assert recipe.tags_for("other").hp == ()
    assert recipe.restructure_for("toy") == ()
    assert recipe.restructure_for("other") is None
    assert recipe.calibration_for("toy").method == "mse"
    assert recipe.calibration_for("other").method is None
    assert recipe.where_override("toy", "tags", "hp", 0) == "recipe.yaml:6:21"
    assert recipe.where_override("other", "tags", "hp", 0) == "recipe.yaml:1:1"


def test_rules_are_checked_where_known(load, minimal: str) -> None:
    text = minimal.replace("toy: {}", "toy: {restructure: [fuse_relu]}") + "restructure: [fold_batchnorm]\n"
    assert load(text).restructure == ("fold_batchnorm",)
    with pytest.raises(InvalidRecipeError) as caught:
        load(text, known_rules={"fold_batch_norm", "fuse_relu"})
    assert caught.value.reason == "there is no rewrite rule 'fold_batchnorm'"
    assert caught.value.remedy == "did you mean 'fold_batch_norm'? rules: fold_batch_norm, fuse_relu"
    assert caught.value.where == "recipe.yaml:7:15"


def test_caffe(load, minimal: str) -> None:
    text = minimal.replace("path: net.onnx", "path: net.prototxt\n  weights: net.caffemodel")
    assert load(text).model.format == "caffe"
    assert load(minimal.replace("path: net.onnx", "path: net.bin\n  format: onnx")).model.format == "onnx"


def test_third_party_sections_with_before_validators(load, minimal: str) -> None:
    recipe = load(minimal.replace("toy: {}", "other: {plugged: {sizes: [1, 2], names: [a, b, a]}}"))
    assert recipe.targets["other"].plugged.sizes == (1, 2)
    assert recipe.targets["other"].plugged.names == {"a", "b"}
    with pytest.raises(InvalidRecipeError, match=r"'sizes\[1\]' must be a whole number, but the text 'x'"):
        load(minimal.replace("toy: {}", "other: {plugged: {sizes: [1, x]}}"))


# --- paths


def test_paths_are_relative_to_the_file_they_are_written_in(write: Write, target_models, tmp_path: Path) -> None:
    write("work/here.txt", "")
    write("recipes/r.yaml", "nnkit: 1\nname: a\nmodel: !include ../parts/m.yaml\ntargets: {toy: {formats: f.json}}\n")
    write("parts/m.yaml", "path: net.onnx\ninputs: {i: {calibration: {images: [a.pgm, /abs/b.pgm]}}}\n")
    recipe = load_recipe("recipes/r.yaml", target_models=target_models, environ={})
    images = recipe.model.inputs["i"].calibration.images
    assert recipe.model.path.file == tmp_path / "parts" / "net.onnx"
    assert recipe.model.path.where == "recipes/../parts/m.yaml:1:7"
    assert [path.file.resolve() for path in images] == [tmp_path / "parts" / "a.pgm", Path("/abs/b.pgm")]
    assert images[1].where == "recipes/../parts/m.yaml:2:44"
    assert [path.written for path in images] == ["../parts/a.pgm", "/abs/b.pgm"]
    assert recipe.targets["toy"].formats.file == tmp_path / "recipes" / "f.json"
    assert recipe.targets["toy"].formats.written == "f.json"


def test_paths_do_not_change_with_the_working_folder(
    write: Write, target_models, tmp_path: Path, monkeypatch
) -> None:
    path = write("recipes/r.yaml", "nnkit: 1\nname: a\nmodel: {path: net.onnx}\ntargets: {toy: {}}\n")
    recipe = load_recipe("recipes/r.yaml", target_models=target_models)
    monkeypatch.chdir("/")
    assert recipe.model.path.file == tmp_path / "recipes" / "net.onnx"
    assert load_recipe(path, target_models=target_models).model.path.file == tmp_path / "recipes" / "net.onnx"


@pytest.mark.parametrize(
    ("present", "value", "found"),
    [
        ("shared/net.onnx", "shared", "shared/net.onnx"),  # as on the command line
        ("recipes/up/net.onnx", "up", "recipes/up/net.onnx"),  # relative to the recipe
        ("recipes/a/net.onnx a/net.onnx", "a", "a/net.onnx"),
        ("", "gone", "gone/net.onnx"),
    ],
)
def test_paths_that_begin_with_a_variable(
    write: Write, target_models, tmp_path: Path, present: str, value: str, found: str
) -> None:
    for name in present.split():
        write(name, "")
    write("recipes/r.yaml", 'nnkit: 1\nname: a\nmodel: {path: "${DATA}/net.onnx"}\ntargets: {toy: {}}\n')
    recipe = load_recipe("recipes/r.yaml", target_models=target_models, environ={"DATA": value})
    assert recipe.model.path.file == tmp_path / found
    assert recipe.model.path.text == f"{value}/net.onnx"
    assert recipe.model.path.written == "${DATA}/net.onnx"


def test_a_default_is_relative_to_the_recipe(write: Write, target_models, tmp_path: Path) -> None:
    write("data/net.onnx", "")
    write("recipes/r.yaml", 'nnkit: 1\nname: a\nmodel: {path: "${DATA:-data}/net.onnx"}\ntargets: {toy: {}}\n')
    recipe = load_recipe("recipes/r.yaml", target_models=target_models, environ={})
    assert recipe.model.path.file == tmp_path / "recipes" / "data" / "net.onnx"


def test_an_unset_variable_is_named_with_its_place(load, minimal: str) -> None:
    with pytest.raises(InvalidRecipeError) as caught:
        load(minimal.replace("net.onnx", "${NNKIT_SHARED}/models/net.onnx"))
    assert caught.value.where == "recipe.yaml:4:9"
    assert caught.value.reason == "the environment variable NNKIT_SHARED is not set"
    assert "export NNKIT_SHARED=" in caught.value.remedy


# --- variables where the schema wants something else than text


def test_variables_become_numbers_where_numbers_are_wanted(load, minimal: str) -> None:
    text = minimal.replace(
        "toy: {}", 'toy: {cores: "${N}", fast: "${B}", gain: "${G}", memory: {l2: "${L}"}, order: ["${N}"]}'
    )
    toy = load(text, environ={"N": "4", "B": "true", "G": "1e-3", "L": "64KiB"}).targets["toy"]
    assert (toy.cores, toy.fast, toy.gain, toy.memory.l2, toy.order) == (4, True, 0.001, 65536, [4])


def test_variables_stay_text_where_text_is_wanted(load, minimal: str) -> None:
    text = minimal.replace("small", "${NAME}").replace("targets", "release: {version: '${V:-1.0.0}'}\ntargets")
    assert load(text, environ={"NAME": "0123"}).name == "0123"


def test_quoted_numbers_without_variables_are_not_numbers(load, minimal: str) -> None:
    with pytest.raises(InvalidRecipeError, match="'cores' must be a whole number"):
        load(minimal.replace("toy: {}", 'toy: {cores: "4"}'))


def test_a_variable_with_a_bad_value_is_reported_with_it(load, minimal: str) -> None:
    text = minimal.replace("toy: {}", 'toy: {cores: "${N}", fast: "${B}"}')
    with pytest.raises(InvalidRecipeError) as caught:
        load(text, environ={"N": "99", "B": "yes"})
    assert [p.reason for p in caught.value.problems] == [
        "'cores' must be at most 8, but the number ${N} was given",
        "'fast' must be true or false, but the text 'yes' was given",
    ] or [p.reason for p in caught.value.problems] == [
        "'cores' must be at most 8, but the number 99 was given",
        "'fast' must be true or false, but the text 'yes' was given",
    ]


# --- anything


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["auto", "a.onnx"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["hp", "path", "kind", "toy", "images", "shape", "size", "x"]), inner, max_size=3
        ),
    ),
    max_leaves=8,
)
PLACES = [
    "nnkit", "name", "model", "model.inputs", "model.inputs.i", "model.inputs.i.preprocess", "restructure", "tags",
    "calibration", "targets", "targets.toy", "targets.other.plugged", "targets.toy.order", "postprocess", "verify",
    "verify.images", "release",
]  # fmt: skip


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PLACES), VALUES)
def test_any_value_anywhere_is_taken_or_refused_in_plain_words(load, minimal: str, place: str, value: object) -> None:
    try:
        load(with_values(minimal, {place: value}))
    except NnkitError as error:
        for jargon in ("Input should", "pydantic", "Value error"):
            assert jargon not in str(error)  # noqa: PT017


def test_the_package_is_quick_to_import() -> None:
    """`nnkit --help` imports `nnkit.recipe`, which must not import pydantic or yaml."""
    import subprocess
    import sys

    code = "import sys, nnkit.recipe; print([m for m in ('pydantic', 'yaml', 'numpy') if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert run.stdout.strip() == "[]"
