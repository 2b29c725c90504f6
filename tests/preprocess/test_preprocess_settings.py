"""Preprocess: checked values, and the same meaning from the recipe's model and from plain mappings."""

from __future__ import annotations

from typing import Any

import pytest

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


def test_from_a_mapping() -> None:
    found = Preprocess.from_recipe({"crop": [1, 2, 3, 4], "resize": {"size": [5, 6]}, "mean": 7, "scale": [8]})
    assert found == Preprocess(crop=CropBox(1, 2, 3, 4), resize=Resize(5, 6), mean=(7.0,), scale=(8.0,))
    assert Preprocess.from_recipe({"crop": "center"}).crop == "center"


@pytest.mark.parametrize("written", [None, {}, recipe.Preprocess()])
def test_omitted_color_follows_the_input(written: Any) -> None:
    assert Preprocess.from_recipe(written, (1, 3, 4, 4)) == Preprocess(color="rgb")
    assert Preprocess.from_recipe(written, (1, 1, 4, 4)) == Preprocess(color="gray")
    assert Preprocess.from_recipe(written, (1, 10)) == Preprocess(color="gray")


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"color": "grey"}, "color 'grey'"),
        ({"crop": "middle"}, "crop 'middle'"),
        ({"crop": [1, 2, 3]}, "crop has 3 numbers"),
        ({"crop": [-1, 0, 3, 3]}, "not a window"),
        ({"crop": [0, 0, 0, 3]}, "not a window"),
        ({"resize": {"size": [4, 4], "filter": "linear"}}, "resize filter 'linear'"),
        ({"resize": {"size": [4, 0]}}, "less than one pixel"),
        ({"mean": [1, 2, 3]}, "mean has 3 values"),
        ({"color": "rgb", "scale": [1, 2]}, "scale has 2 values"),
        ({"mean": float("nan")}, "not finite"),
        ({"scale": 0}, "scale is 0"),
    ],
)
def test_bad_values(written: dict[str, Any], reason: str) -> None:
    with pytest.raises(RecipeError, match=reason) as caught:
        Preprocess.from_recipe(written)
    assert caught.value.remedy
