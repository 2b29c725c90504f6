"""Recipes: those that are shipped, read and validated as `nnkit check` does, and one with later words.

The recipes of deployments are read as such, and the builds of a sweep are counted out.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from fuzz.damage import damaged_text

ROOT = Path(__file__).resolve().parents[1]
Seeds = tuple[str, ...]
_LATER = """\
nnkit: 1
name: later
model:
  path: net.onnx
  inputs:
    image:
      shape: [1, 3, 320, 320]
      preprocess: {resize: {letterbox: true, size: [320, 320], fill: 114}}
      calibration: {images: images/*.png}
targets:
  gap8: {precision: int8, memory: {l1: 64KiB, l2: 512KiB}, stripes: least, steps: table}
  ansi_c: {precision: int8, arena: 128KiB, stripes: 4}
calibration: {corrections: [balance, adaround], judged_on: judging/*/*.png}
postprocess:
  - kind: yolo
    code: v5
    image: [320, 320]
    heads:
      - {output: p3, map: [40, 40], anchors: [[10, 13], [16, 30], [33, 23]]}
      - {output: p4, map: [20, 20], anchors: [[30, 61], [62, 45], [59, 119]]}
verify:
  images: judging/*/*.png
  task: {kind: classification, labels: parent_folder}
sweep:
  targets.gap8.precision: [int16, int8]
  calibration.corrections: [[], [balance, adaround]]
  size:
    small: {model.inputs.image.shape: [1, 3, 160, 160]}
    full: {model.inputs.image.shape: [1, 3, 320, 320]}
release: {version: 1.0.0}
"""


def seeds(folder: Path) -> Seeds:
    """The texts of the shipped recipes, and one of words that none of them has."""
    shipped = (path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("recipes/*/recipe*.yaml")))
    return (*shipped, _LATER)


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged recipe."""
    from nnkit.api.deploying import load_deployment_recipe
    from nnkit.api.preparing import load
    from nnkit.recipe.deployment_loading import is_deployment
    from nnkit.recipe.grid import axes_of_recipe, points

    path = folder / "recipe.yaml"
    path.write_bytes(damaged_text(chance.choice(given), chance, given))
    if is_deployment(path):
        load_deployment_recipe(path)
    else:
        recipe = load(path)
        points(recipe, axes_of_recipe(recipe))
