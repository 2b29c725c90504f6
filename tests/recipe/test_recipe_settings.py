"""`--set key=value`: the recipe that comes out is the one that a file with that value gives."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from small_project import RECIPE, write_project

from nnkit.api.preparing import load
from nnkit.errors import RecipeError, UsageError
from nnkit.recipe import resolved_yaml
from nnkit.recipe.settings import parse_setting, parse_settings


def test_a_value_set_is_the_value_written(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    other = tmp_path / "other.yaml"
    changes = {
        "verify.gates.cosine=0.5": ("cosine: 0.99", "cosine: 0.5"),
        "targets.gap8.precision=int8": ("gap8: {}", "gap8: {precision: int8}"),
        "targets.gap8={cores: 4}": ("gap8: {}", "gap8: {cores: 4}"),
        "calibration.method=mse": ("targets:", "calibration: {method: mse}\ntargets:"),
        "model.inputs.x.preprocess.resize.size.1=40": ("[40, 40]", "[40, 40]"),
        "release.notes=": ("1.2.3", "1.2.3, notes: null"),
    }
    for setting, (before, after) in changes.items():
        assert before in RECIPE
        other.write_text(RECIPE.replace(before, after))
        assert resolved_yaml(load(path, [parse_setting(setting)])) == resolved_yaml(load(other)), setting


def test_a_recipe_tells_what_was_set_the_same_however_it_was_written(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    assert load(path).settings == ()
    for given in ('release.version="1.3.0"', "release.version= '1.3.0'", "release.version=1.3.0"):
        assert load(path, [parse_setting(given)]).settings == ("release.version=1.3.0",)
    set_twice = parse_settings(["targets.gap8={cores: 4}", "release.notes=null"])
    assert load(path, set_twice).settings == ("targets.gap8={cores: 4}", "release.notes=null")
    again = [parse_setting(option) for option in load(path, set_twice).settings]
    assert resolved_yaml(load(path, again)) == resolved_yaml(load(path, set_twice))


def test_the_order_of_settings_changes_nothing(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    for texts in (
        ["targets=[ansi_c, gap8]", "targets.ansi_c.precision=int8", "targets.gap8.memory.l2=64KiB"],
        ["model.inputs.x.calibration={images: images/*.png}", "model.inputs.x.calibration.count=2"],
        ["verify={}", "verify.gates={}", "verify.gates.cosine=0.5"],
    ):
        made = {resolved_yaml(load(path, parse_settings(order))) for order in itertools.permutations(texts)}
        assert len(made) == 1


def test_a_list_of_targets_chooses_them_and_keeps_their_options(tmp_path: Path) -> None:
    path = write_project(tmp_path, RECIPE.replace("gap8: {}", "gap8: {precision: int8}\n  nnie: {chip: hi3516cv500}"))
    recipe = load(path, parse_settings(["targets=[ansi_c, gap8]"]))
    assert list(recipe.targets) == ["ansi_c", "gap8"]
    assert recipe.targets["gap8"].model_dump()["precision"] == "int8"
    with pytest.raises(RecipeError, match=r"no target 'gap9' is installed") as caught:
        load(path, parse_settings(["targets=[gap9]"]))
    assert caught.value.where == "--set targets"


def test_paths_are_those_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_project(tmp_path)
    here = tmp_path / "here"
    here.mkdir()
    (here / "own.onnx").write_bytes(b"")
    monkeypatch.chdir(here)
    recipe = load(path, [parse_setting("model.path=own.onnx")])
    assert recipe.model.path.existing_file("the model").resolve() == (here / "own.onnx").resolve()


def test_a_key_with_a_dot_is_found(tmp_path: Path) -> None:
    path = write_project(tmp_path, RECIPE.replace("    x:", "    input.1:"))
    recipe = load(path, [parse_setting("model.inputs.input.1.preprocess.color=bgr")])
    preprocess = recipe.model.inputs["input.1"].preprocess
    assert preprocess is not None
    assert preprocess.color == "bgr"


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("verify.gates.cosin=1", "unknown key 'cosin'"),
        ("name.x=1", "'name.x' is below a value that has no keys"),
        ("verify.gates.cosine=[", "the file ends inside"),
        ("model.inputs.x.preprocess.resize.size.7=4", "below a value that has no keys"),
    ],
)
def test_what_cannot_be_set_is_told_with_the_option(setting: str, reason: str, tmp_path: Path) -> None:
    path = write_project(tmp_path)
    with pytest.raises(RecipeError, match=reason) as caught:
        load(path, [parse_setting(setting)])
    assert caught.value.where.startswith(f"--set {setting.partition('=')[0]}")
    assert caught.value.remedy


def test_what_sets_nothing_is_refused() -> None:
    for texts in (["verify"], ["=1"], ["a..b=1"], ["a=1", "a=2"]):
        with pytest.raises(UsageError):
            parse_settings(texts)
