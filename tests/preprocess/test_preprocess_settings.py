"""Preprocess: checked values, and their meaning from the recipe's model."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from nnkit import recipe
from nnkit.errors import RecipeError
from nnkit.preprocess import CropBox, Preprocess, Resize


def test_from_the_recipes_model() -> None:
    written = recipe.Preprocess(
        color="bgr",
        crop={"left": 1, "top": 2, "width": 30, "height": 40},
        flip=True,
        resize={"size": [20, 10], "filter": "lanczos"},
        mean=[1.0, 2.0, 3.0],
        scale=0.5,
    )
    expected = Preprocess(
        color="bgr",
        crop=CropBox(1, 2, 30, 40),
        flip=True,
        resize=Resize(height=20, width=10, filter="lanczos"),
        mean=(1.0, 2.0, 3.0),
        scale=(0.5,),
    )
    assert Preprocess.from_recipe(written, (1, 3, 20, 10)) == expected


def test_what_the_recipe_leaves_out_has_the_recipes_defaults() -> None:
    written = recipe.Preprocess.model_validate({"resize": {"size": [5, 6]}, "mean": 7, "scale": [8]})
    expected = Preprocess(resize=Resize(5, 6, "bilinear"), mean=(7.0,), scale=(8.0,))
    assert Preprocess.from_recipe(written, ()) == expected
    assert Preprocess.from_recipe(recipe.Preprocess(crop="center"), ()).crop == "center"


@pytest.mark.parametrize("written", [None, recipe.Preprocess()])
def test_omitted_color_follows_the_input(written: recipe.Preprocess | None) -> None:
    assert Preprocess.from_recipe(written, (1, 3, 4, 4)) == Preprocess(color="rgb")
    assert Preprocess.from_recipe(written, (1, 1, 4, 4)) == Preprocess(color="gray")
    assert Preprocess.from_recipe(written, (1, 10)) == Preprocess(color="gray")


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"color": "grey"}, "color\n.*'gray', 'rgb' or 'bgr'"),
        ({"crop": "middle"}, "crop.*\n.*'center'"),
        ({"crop": [1, 2, 3]}, "crop.*\n.*'center'"),
        ({"crop": {"left": -1, "top": 0, "width": 3, "height": 3}}, "left\n.*greater than or equal to 0"),
        ({"crop": {"left": 0, "top": 0, "width": 0, "height": 3}}, "width\n.*greater than or equal to 1"),
        ({"resize": {"size": [4, 4], "filter": "linear"}}, "resize.filter"),
        ({"resize": {"size": [4, 0]}}, "resize.size.1\n.*greater than or equal to 1"),
        ({"color": "rgb", "scale": [1, 2]}, "scale has 2 numbers"),
        ({"mean": float("nan")}, "mean.one\n.*finite"),
        ({"scale": 0}, "a scale of 0"),
    ],
)
def test_bad_values_are_refused_by_the_recipes_model(written: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        recipe.Preprocess.model_validate(written)


@pytest.mark.parametrize(
    ("written", "reason"), [({"mean": [1, 2, 3]}, "mean has 3"), ({"scale": [1, 2]}, "scale has 2")]
)
def test_values_of_other_numbers_than_the_channels_of_the_input(written: dict[str, Any], reason: str) -> None:
    with pytest.raises(RecipeError, match=f"{reason} values, but color 'gray' has 1 channel") as caught:
        Preprocess.from_recipe(recipe.Preprocess.model_validate(written), (1, 1, 4, 4))
    assert caught.value.remedy
