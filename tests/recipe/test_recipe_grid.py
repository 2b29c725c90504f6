"""Grids of sweeps: which builds they span, how these are named, and what is refused."""

from __future__ import annotations

import pytest

from nnkit.errors import UsageError
from nnkit.recipe import InvalidRecipeError
from nnkit.recipe.grid import MOST_BUILDS, Point, axes_of_recipe, points, spanned
from nnkit.recipe.settings import Setting, parse_settings

RECIPE = """\
nnkit: 1
name: small
model:
  path: net.onnx
targets:
  toy: {}
  other: {}
"""


def grid(load, text: str) -> tuple[Point, ...]:
    recipe = load(RECIPE + text)
    return points(recipe, axes_of_recipe(recipe))


def test_every_combination_is_one_build_and_other_targets_are_built_once(load) -> None:
    found = grid(load, "sweep: {targets.toy.precision: [int8, int16], targets.toy.memory.l2: [1KiB, 2KiB, 3KiB]}\n")
    assert [point.variant for point in found] == [
        "toy@int8-1KiB",
        "toy@int8-2KiB",
        "toy@int8-3KiB",
        "toy@int16-1KiB",
        "toy@int16-2KiB",
        "toy@int16-3KiB",
        "other",
    ]
    assert found[4].values == {"targets.toy.precision": "int16", "targets.toy.memory.l2": "2KiB"}


def test_a_build_has_the_values_of_its_point_and_no_other_target(load) -> None:
    found = grid(load, "sweep: {targets.toy.memory.l2: [1KiB, 2KiB], calibration.headroom: [1, 2.5]}\n")
    text = RECIPE + "sweep: {targets.toy.memory.l2: [1KiB, 2KiB], calibration.headroom: [1, 2.5]}\n"
    built = [load(text, settings=point.settings).only(point.key, point.variant) for point in found]
    assert [(list(recipe.targets), recipe.calibration.headroom, dict(recipe.sweep)) for recipe in built] == [
        ([point.variant], headroom, {}) for point, headroom in zip(found, [1, 2.5, 1, 2.5, 1, 2.5], strict=True)
    ]
    sizes = [recipe.targets[point.variant].memory.l2 for recipe, point in zip(built[:4], found, strict=False)]
    assert sizes == [1024, 1024, 2048, 2048]
    assert [point.variant for point in found] == [
        "toy@1KiB-headroom1",
        "toy@1KiB-headroom2.5",
        "toy@2KiB-headroom1",
        "toy@2KiB-headroom2.5",
        "other@headroom1",
        "other@headroom2.5",
    ]


def test_keys_that_belong_together_are_set_together(load) -> None:
    text = """\
sweep:
  size:
    small: {model.inputs.x.shape: [1, 1, 8, 8], model.inputs.x.preprocess.resize.size: [8, 8]}
    large: {model.inputs.x.shape: [1, 1, 16, 16], model.inputs.x.preprocess.resize.size: [16, 16]}
"""
    found = grid(load, text)
    assert [point.variant for point in found] == ["toy@small", "toy@large", "other@small", "other@large"]
    recipe = load(RECIPE + text, settings=found[1].settings)
    assert recipe.model.inputs["x"].shape == (1, 1, 16, 16)
    assert recipe.model.inputs["x"].preprocess.resize.size == (16, 16)


def test_targets_are_an_axis_and_may_be_others_than_the_recipes(load) -> None:
    text = RECIPE.replace("  other: {}\n", "") + "sweep: {targets: [other, toy]}\n"
    recipe = load(text)
    found = points(recipe, axes_of_recipe(recipe))
    assert [(point.key, point.variant) for point in found] == [("other", "other"), ("toy", "toy")]
    assert "other" in load(text, settings=found[0].settings).targets
    assert found[1].settings == ()


def test_names_that_are_long_or_equal_become_numbers(load) -> None:
    long = "x" * 41
    values = f"{long}: {{tags.cpu: [a]}}, 'b/c': {{tags.cpu: [b]}}, b c: {{tags.cpu: []}}"
    found = grid(load, f"sweep: {{a: {{{values}}}}}\n")
    assert [point.variant for point in found[:3]] == ["toy@p001", "toy@b_c", "toy@p003"]


def test_paths_are_those_of_the_recipe_and_mistakes_have_its_lines(load) -> None:
    text = "sweep:\n  model.path: [one.onnx, two.onnx]\n  targets.toy.precision: [int8, int4]\n"
    found = grid(load, text)
    good = load(RECIPE + text, settings=found[2].settings[:1])
    assert good.model.path.text == "two.onnx"
    with pytest.raises(InvalidRecipeError) as caught:
        load(RECIPE + text, settings=found[1].settings)
    assert [problem.where for problem in caught.value.problems] == ["recipe.yaml:10:33"]


@pytest.mark.parametrize(
    ("sweep", "where", "said"),
    [
        ("{calibration.headroom: []}", "8:31", "has no values"),
        ("{calibration.headroom: [1, 1]}", "8:31", "given twice"),
        ("{name: [a, b]}", "8:15", "the same for all builds"),
        ("{size: {small: {}}}", "8:23", "sets nothing"),
        ("{targets: [[toy]]}", "8:18", "by their names"),
        ("{calibration.headroom: 2}", "8:31", "list"),
        ("[a]", "8:8", ""),
    ],
)
def test_what_is_no_sweep_is_refused_with_its_place(load, sweep: str, where: str, said: str) -> None:
    with pytest.raises(InvalidRecipeError) as caught:
        load(f"{RECIPE}sweep: {sweep}\n")
    assert [problem.where for problem in caught.value.problems] == [f"recipe.yaml:{where}"]
    assert said in str(caught.value)
    assert "Input should" not in str(caught.value)
    assert caught.value.problems[0].remedy


def test_one_key_on_two_axes_and_too_many_builds_are_refused(load) -> None:
    with pytest.raises(UsageError, match="two axes"):
        grid(load, "sweep: {tags.cpu: [[a], [b]], other: {x: {tags.cpu: [c]}}}\n")
    many = ", ".join(f"{n}KiB" for n in range(1, 40))
    with pytest.raises(UsageError, match=f"{MOST_BUILDS:,}"):
        grid(load, f"sweep: {{targets.toy.memory.l1: [{many}], targets.toy.memory.l2: [{many}]}}\n")


def test_lists_of_the_command_line_span_where_the_key_takes_no_list(load) -> None:
    def problems(setting: Setting) -> int:
        try:
            load(RECIPE, settings=(setting,))
        except InvalidRecipeError as error:
            return len(error.problems)
        return 0

    given = parse_settings(
        [
            "targets.toy.precision=[int8, int16]",
            "tags.cpu=[a, b]",
            "tags.hp=[[a], [b, c]]",
            "model.inputs.x.shape=[1, 1, 8, 8]",
            "targets=[toy, other]",
            "calibration.headroom=2",
        ]
    )
    fixed, axes = spanned(given, problems)
    assert [setting.key for setting in fixed] == ["tags.cpu", "model.inputs.x.shape", "calibration.headroom"]
    assert [(axis.name, [choice.label for choice in axis.choices]) for axis in axes] == [
        ("targets.toy.precision", ["int8", "int16"]),
        ("tags.hp", ["a", "b+c"]),
        ("targets", ["toy", "other"]),
    ]
