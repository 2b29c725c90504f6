"""The keyword spotter: its network is made again as its script says, and its recipe holds its gates in integers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from small_project import make_build

from nnkit import pipeline

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "mcu_keyword"


def accuracy(folder: Path) -> float:
    """Of the network in float, on the labelled spectrograms."""
    session = onnxruntime.InferenceSession(str(folder / "keyword.onnx"), providers=["CPUExecutionProvider"])
    lines = [line.split(",") for line in (RECIPE / "labels.csv").read_text().splitlines()]
    hits = 0
    for name, kind in lines:
        pixels = np.asarray(Image.open(RECIPE / "held_out" / name), np.float32)
        (scores,) = session.run(None, {"spectrogram": pixels[None, None]})
        hits += int(scores.argmax()) == int(kind)
    return hits / len(lines)


def test_the_script_draws_the_same_words_and_makes_as_good_a_network(tmp_path: Path) -> None:
    for name in ("train.py", "draw_words.py"):
        shutil.copy(RECIPE / name, tmp_path)
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, check=True)
    for kept in [*RECIPE.glob("calibration/*.png"), *RECIPE.glob("held_out/*.png")]:
        made = Image.open(tmp_path / kept.relative_to(RECIPE))
        np.testing.assert_array_equal(np.asarray(Image.open(kept)), np.asarray(made))
    assert (tmp_path / "labels.csv").read_text() == (RECIPE / "labels.csv").read_text()
    assert accuracy(tmp_path) > 0.9
    assert accuracy(RECIPE) > 0.9


@pytest.mark.parametrize("target", ["ansi_c@int8", "ansi_c@float32"])
def test_the_recipe_holds_its_gates(tmp_path: Path, target: str) -> None:
    outcome = pipeline.run(make_build(RECIPE / "recipe.yaml", target=target), tmp_path)
    report = json.loads((outcome.folder / "report.json").read_text())
    assert report["status"] == "ok"
    (verdict,) = report["verify"]["program_vs_artifact"]
    assert verdict["mismatches"] == 0
    assert report["details"]["arena_bytes"] <= (16 << 10 if "int8" in target else 64 << 10)
