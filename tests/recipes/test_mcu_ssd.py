"""The small SSD: its pictures are drawn again, its recipe holds its gates, and its C finds the shapes."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_project import make_build

from nnkit import pipeline

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "mcu_ssd"

DRIVER = """
#include <stdio.h>
#include "shapes.h"
#include "nnkit_detect.h"
static shapes_arena arena;
static float pixels[96 * 96];
static unsigned char image[SHAPES_IMAGE_VALUES];
static nnkit_box_value location[SHAPES_LOCATION_VALUES];
static nnkit_score confidence[SHAPES_CONFIDENCE_VALUES];
static nnkit_detections found;
int main(void)
{
    shapes_context context;
    shapes_init(&context, &arena, shapes_weights);
    while (fread(pixels, sizeof pixels, 1, stdin) == 1) {
        int i;
        shapes_store_image(pixels, image);
        shapes_run(&context, image, location, confidence);
        if (nnkit_detect(location, confidence, &found) != NNKIT_OK) return 1;
        printf("%d\\n", (int)found.count);
        for (i = 0; i < found.count; i++) {
            const nnkit_detection *row = found.rows + i;
            printf("%d %.4f %.4f %.4f %.4f\\n", row->label, row->box[0] / 16384.0, row->box[1] / 16384.0,
                   row->box[2] / 16384.0, row->box[3] / 16384.0);
        }
    }
    return 0;
}
"""


def overlap(a: list[float], b: list[float]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def rightly_found(rows: list[dict[str, str]]) -> int:
    """How many of the drawn shapes are found, by class and an overlap of at least a half."""
    with (RECIPE / "shapes.csv").open(encoding="utf-8") as file:
        truth = [(int(name[:2]), kind, [float(each) for each in box]) for name, kind, *box in csv.reader(file)]
    assert len(truth) == 40
    left = list(truth)
    for row in rows:
        box = [float(row[key]) for key in ("x_min", "y_min", "x_max", "y_max")]
        mine = [t for t in left if t[:2] == (int(row["sample"]), row["class"]) and overlap(box, t[2]) >= 0.5]
        if mine:
            left.remove(mine[0])
    return len(truth) - len(left)


@pytest.fixture
def draw_shapes() -> Iterator[Any]:
    sys.path.insert(0, str(RECIPE))
    import draw_shapes as module

    yield module
    sys.path.remove(str(RECIPE))
    del sys.modules["draw_shapes"]


def test_the_script_draws_the_same_scenes(draw_shapes: Any) -> None:
    lines = []
    for kind, first in (("calibration", 1_000_000), ("held_out", 2_000_000)):
        for index in range(24):
            pixels, shapes = draw_shapes.scene(np.random.default_rng(first + index))
            np.testing.assert_array_equal(pixels, np.asarray(Image.open(RECIPE / kind / f"{index:02}.png")))
            if kind == "held_out":
                for shape, *corners in shapes:
                    lines.append(",".join([f"{index:02}.png", str(shape), *(f"{each / 96:.4f}" for each in corners)]))
    assert (RECIPE / "shapes.csv").read_text().splitlines() == lines


@pytest.mark.parametrize("target", ["ansi_c@int8", "ansi_c@float32"])
def test_the_recipe_finds_the_shapes(tmp_path: Path, target: str) -> None:
    outcome = pipeline.run(make_build(RECIPE / "recipe.yaml", target=target), tmp_path)
    report = json.loads((outcome.folder / "report.json").read_text())
    assert report["status"] == "ok"
    assert report["verify"]["program_vs_artifact"][0]["mismatches"] == 0
    folder = outcome.folder / "verify" / "detections"
    assert Image.open(folder / "23.png").size == (480, 480)
    with (folder / "detections.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rightly_found(rows) >= 36
    assert len(rows) <= 44
    if target == "ansi_c@int8":
        artifact = outcome.folder / "artifact"
        assert report["details"]["arena_bytes"] <= 24 << 10
        subprocess.run(["make", "CFLAGS=-O2 -Werror"], cwd=artifact, check=True, capture_output=True)
        (tmp_path / "main.c").write_text(DRIVER)
        command = ["cc", "-O1", f"-I{artifact}", f"-I{artifact}/postprocess", "main.c", str(artifact / "libshapes.a")]
        subprocess.run([*command, "-o", "find", "-lm"], cwd=tmp_path, check=True)
        pictures = [np.asarray(Image.open(RECIPE / "held_out" / f"{i:02}.png"), np.float32) for i in range(24)]
        told = subprocess.run(
            [tmp_path / "find"], input=b"".join(p.tobytes() for p in pictures), capture_output=True, check=True
        )
        lines = told.stdout.decode().splitlines()
        expected = []
        for index in range(24):
            mine = [row for row in rows if row["sample"] == str(index)]
            keys = ("class", "x_min", "y_min", "x_max", "y_max")
            expected += [str(len(mine)), *(" ".join(row[key] for key in keys) for row in mine)]
        assert lines == expected
