"""A small network with images and a recipe, and a Build of it in this process."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from nnkit.api.preparing import load
from nnkit.cache import StageCache
from nnkit.report.progress import Progress
from nnkit.stages import Build
from nnkit.target import load_target, plugin_name
from tests.end_to_end.networks import squeezenet

RECIPE = """\
nnkit: 1
name: small
model:
  path: net.onnx
  inputs:
    x:
      preprocess: {color: gray, resize: {size: [40, 40]}}
      calibration: {images: "images/*.png"}
targets:
  gap8: {}
verify: {gates: {cosine: 0.99, sqnr_db: 20, max_abs: 10}}
release: {version: 1.2.3}
"""


def write_project(folder: Path, recipe: str = RECIPE, images: int = 3) -> Path:
    """`net.onnx`, `images/<n>.png` and `recipe.yaml`; returns the recipe's path."""
    squeezenet(folder / "net.onnx")
    (folder / "images").mkdir()
    for index in range(images):
        pixels = np.random.default_rng(index).integers(0, 256, (48, 40)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"images/{index}.png")
    (folder / "recipe.yaml").write_text(recipe)
    return folder / "recipe.yaml"


def make_build(
    recipe: Path,
    cache: StageCache | None = None,
    *,
    target: str = "gap8",
    emulate: bool = False,
    trusted: bool = False,
) -> Build:
    """A Build of the recipe that writes its progress nowhere."""
    loaded = load(recipe)
    return Build(
        loaded,
        target,
        load_target(plugin_name(target)),
        loaded.targets[target],
        cache or StageCache.disabled(),
        Progress(stream=io.StringIO()),
        emulate,
        trusted=trusted,
    )
