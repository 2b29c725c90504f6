"""What flatters a build, or asks for a chip that there is not, is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nnkit_command import run_nnkit
from PIL import Image
from small_project import RECIPE, write_project


def said(folder: Path, recipe: str) -> str:
    path = write_project(folder, recipe)
    return run_nnkit("run", path, "--out", folder / "out", "--no-qemu").stdout


@pytest.mark.parametrize(("images", "count"), [("", 3), ("images: '*/*.png', ", 4)])
def test_verification_on_calibration_images_is_told(images: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    pixels = np.random.default_rng(9).integers(0, 256, (48, 40)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "others/0.png")
    words = said(tmp_path, RECIPE.replace("verify: {", f"verify: {{{images}"))
    assert f"on {count} inputs\n  note     3 of these inputs are calibration images too" in words


def test_images_that_nobody_calibrated_on_are_not(tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    pixels = np.random.default_rng(9).integers(0, 256, (48, 40)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "others/0.png")
    words = said(tmp_path, RECIPE.replace("verify: {", "verify: {images: others/*.png, "))
    assert "calibration images too" not in words
    assert "GAP8 has" not in words


def test_more_memory_than_the_chip_has_is_told(tmp_path: Path) -> None:
    words = said(tmp_path, RECIPE.replace("gap8: {}", "gap8: {memory: {l1: 65KiB, l2: 1MiB, larger_chip: true}}"))
    assert "memory.l1 is 66,560 bytes, GAP8 has 65,536" in words
    assert "memory.l2 is 1,048,576 bytes, GAP8 has 524,288" in words
