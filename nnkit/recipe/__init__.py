"""Recipes: reading, validating and describing them. Everything is imported at first use, to keep `--help` quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.first_use import names_at_first_use

if TYPE_CHECKING:
    from nnkit.recipe.base import RecipeModel, fault
    from nnkit.recipe.cpu_stages import DescriptorMatch, FaceCrop, PcaCombine
    from nnkit.recipe.inputs import CalibrationImages, CropRectangle, InputSpec, ModelSection, Preprocess, Resize
    from nnkit.recipe.json_schema import recipe_json_schema
    from nnkit.recipe.loading import load_recipe
    from nnkit.recipe.problems import InvalidRecipeError, Problem
    from nnkit.recipe.resolved import resolved_yaml
    from nnkit.recipe.schema import Recipe
    from nnkit.recipe.sections import Calibration, Gates, ReleaseSection, Tags, TargetOptionsBase, Verify
    from nnkit.recipe.types import ByteSize, FileName, PathGlobs, RecipePath

__all__ = [
    "ByteSize",
    "Calibration",
    "CalibrationImages",
    "CropRectangle",
    "DescriptorMatch",
    "FaceCrop",
    "FileName",
    "Gates",
    "InputSpec",
    "InvalidRecipeError",
    "ModelSection",
    "PathGlobs",
    "PcaCombine",
    "Preprocess",
    "Problem",
    "Recipe",
    "RecipeModel",
    "RecipePath",
    "ReleaseSection",
    "Resize",
    "Tags",
    "TargetOptionsBase",
    "Verify",
    "fault",
    "load_recipe",
    "recipe_json_schema",
    "resolved_yaml",
]

if not TYPE_CHECKING:  # a checker of types has the imports above, and takes no other name
    __getattr__ = names_at_first_use(
        __name__,
        {
            "base": ("RecipeModel", "fault"),
            "inputs": ("CalibrationImages", "CropRectangle", "InputSpec", "ModelSection", "Preprocess", "Resize"),
            "json_schema": ("recipe_json_schema",),
            "loading": ("load_recipe",),
            "problems": ("InvalidRecipeError", "Problem"),
            "resolved": ("resolved_yaml",),
            "schema": ("Recipe",),
            "cpu_stages": ("DescriptorMatch", "FaceCrop", "PcaCombine"),
            "sections": ("Calibration", "Gates", "ReleaseSection", "Tags", "TargetOptionsBase", "Verify"),
            "types": ("ByteSize", "FileName", "PathGlobs", "RecipePath"),
        },
    )
