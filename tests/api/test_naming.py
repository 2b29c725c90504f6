"""Targets as a command line names them: a target, a build of it, a chip."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_project import RECIPE, write_project

from nnkit.api.naming import load_named, with_chips
from nnkit.api.preparing import Switches, builds, load
from nnkit.errors import UsageError
from nnkit.recipe.settings import parse_settings
from nnkit.report.progress import Progress
from nnkit.target import working_targets


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return write_project(tmp_path, RECIPE.replace("gap8: {}", "gap8: {}\n  tpu: {chip: bm1684x}"))


@pytest.mark.parametrize(
    ("name", "key", "chip"),
    [
        ("tpu", "tpu", "bm1684x"),
        ("tpu:bm1684x", "tpu", "bm1684x"),
        ("bm1684x", "tpu", "bm1684x"),
        ("tpu:cv181x", "tpu@cv181x", "cv181x"),
        ("cv181x", "tpu@cv181x", "cv181x"),
        ("Hi3516DV300", "nnie", "hi3516dv300"),
        ("cortex-m4", "ansi_c", None),
        ("onnx_qdq", "onnx_qdq", None),
        ("gap8", "gap8", None),
    ],
)
def test_a_name_is_a_build_of_the_recipe_or_adds_one(name: str, key: str, chip: str | None, recipe: Path) -> None:
    named = load_named(recipe, (), [name])
    assert named.keys == (key,)
    assert getattr(named.recipe.targets[key], "chip", None) == chip


def test_every_chip_that_a_target_names_is_understood(recipe: Path) -> None:
    for name, target in working_targets()[0].items():
        for chip, options in target.chips().items():
            (key,) = load_named(recipe, (), [f"{name}:{chip}"]).keys
            assert load_named(recipe, (), [chip]).keys == (key,)
            built = load_named(recipe, (), [chip]).recipe.targets[key]
            assert all(getattr(built, option) == value for option, value in options.items())


@pytest.mark.parametrize("name", ["nnie", "nnie:hi9999", "gap9", "gap8:x"])
def test_what_is_missing_or_wrong_is_told_with_what_works(name: str, recipe: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_named(recipe, (), [name])
    if name.startswith("nnie"):
        assert "hi3516dv300" in str(caught.value)
    if name == "nnie":
        remedied = caught.value.remedy.rpartition(" ")[2]
        assert load_named(recipe, (), [remedied]).keys == ("nnie",)


def test_a_variant_that_there_is_not_is_no_other_build(recipe: Path) -> None:
    named = load_named(recipe, (), ["gap8@small"])
    assert (named.keys, named.added) == (("gap8@small",), ())
    with pytest.raises(UsageError, match="the recipe has no build 'gap8@small'"):
        builds(named.recipe, named.keys, Progress(quiet=True), Switches())


def test_a_list_of_targets_takes_chips(recipe: Path) -> None:
    settings = with_chips(parse_settings(["targets=[cv181x, cortex-m4, gap8]", "targets.gap8.precision=int8"]))
    built = load(recipe, settings).targets
    assert list(built) == ["tpu@cv181x", "ansi_c", "gap8"]
    assert built["tpu@cv181x"].model_dump()["chip"] == "cv181x"
    assert built["gap8"].model_dump()["precision"] == "int8"
