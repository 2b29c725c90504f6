"""mean, std and presets as their makers define them: the input is what torchvision's or Caffe's formula gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_project import RECIPE

from nnkit.api.preparing import load
from nnkit.errors import RecipeError
from nnkit.preprocess import Preprocess, load_input
from nnkit.recipe import resolved_yaml

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
FORMULAS = {
    "mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]": lambda rgb: (rgb / 255 - MEAN) / STD,
    "preset: imagenet": lambda rgb: (rgb / 255 - MEAN) / STD,
    "preset: caffe_bgr": lambda rgb: rgb[..., ::-1] - np.array([104, 117, 123]),
    "preset: zero_to_one": lambda rgb: rgb / 255,
    "preset: minus_one_to_one": lambda rgb: rgb / 127.5 - 1,
    "std: 0.5": lambda rgb: rgb / 255 / 0.5,
    "mean: 0.5, std: 1/2": lambda rgb: (rgb / 255 - 0.5) / 0.5,
    "scale: 1/255": lambda rgb: rgb / 255,
    "mean: [123.675, 116.28, 103.53], scale: [1/58.395, 1/57.12, 1/57.375]": lambda rgb: (rgb / 255 - MEAN) / STD,
}


def recipe_with(folder: Path, preprocess: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.replace("color: gray, resize: {size: [40, 40]}", preprocess))
    return path


@pytest.mark.parametrize("written", FORMULAS)
def test_the_input_is_what_the_formula_gives(written: str, tmp_path: Path) -> None:
    rgb = np.random.default_rng(1).integers(0, 256, (40, 40, 3)).astype(np.uint8)
    Image.fromarray(rgb).save(tmp_path / "a.png")
    recipe = load(recipe_with(tmp_path, written))
    for again in range(2):  # and as the build keeps the recipe
        preprocess = Preprocess.from_recipe(recipe.model.inputs["x"].preprocess, (1, 3, 40, 40))
        found = load_input(tmp_path / "a.png", preprocess, (1, 3, 40, 40))
        expected = FORMULAS[written](rgb.astype(np.float64)).transpose(2, 0, 1)[np.newaxis]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
        if not again:
            kept = tmp_path / "kept.yaml"
            kept.write_text(resolved_yaml(recipe))
            recipe = load(kept)


@pytest.mark.parametrize(
    ("written", "reason", "mended"),
    [
        ("preset: imagenet, mean: 1", "says the mean already", "preset: imagenet"),
        ("preset: imagenet, color: bgr", "is of rgb images", "preset: imagenet, color: rgb"),
        ("preset: imagnet", "'imagnet' was given", "preset: imagenet"),
        ("std: 0.5, scale: 2", "scale and std say the same twice", "std: 0.5"),
        ("mean: 127.5, std: 127.5", "divide both by 255", "mean: 0.5, std: 0.5"),
        ("mean: [0.485, 0.456, 0.406]", "changes nothing", "mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]"),
        ("std: 0", "a standard deviation of 0", "std: 1"),
        ("scale: 1/0", "divides by zero", "scale: 1/255"),
        ("scale: 1/x", "must be", "scale: 1/255"),
        ("mean: [0.4, 0.5], std: 1", "mean has 2 numbers", "mean: [0.4, 0.5, 0.4], std: 1"),
    ],
)
def test_what_contradicts_itself_is_refused_and_can_be_mended(
    written: str, reason: str, mended: str, tmp_path: Path
) -> None:
    shape = "color: rgb, " if "mean has" in reason else ""
    with pytest.raises(RecipeError) as caught:
        load(recipe_with(tmp_path, shape + written))
    assert reason in str(caught.value)
    assert caught.value.where.startswith(f"{tmp_path}/recipe.yaml:7:")
    assert caught.value.remedy
    load(recipe_with(tmp_path, mended))
