"""The default network in 8 bits with `hp: auto`: no layer has 16 bits that its gate does not need."""

from __future__ import annotations

from pathlib import Path

from small_project import make_build

from nnkit import pipeline
from nnkit.cache import StageCache

from .conftest import REPOSITORY

FOLDER = REPOSITORY / "recipes" / "gap8_reid"


def test_where_8_bits_pass_the_gate_no_layer_gets_16(tmp_path: Path) -> None:
    build = make_build(FOLDER / "recipe_mixed.yaml", StageCache(tmp_path / "cache"))
    assert build.recipe.tags_for("gap8").hp == "auto"
    planned = pipeline.preview(build)
    search = planned.settled.search
    assert search is not None
    assert (search["chosen"], search["certificate"], search["sets_tried"]) == ([], "minimum", 1)
    assert search["reason"] == "8 bits pass the gates (cosine at least 0.995) in every layer: none needs 16"
    assert search["samples"] == {"calibration": 16, "verification": 20}
    assert [op.name for op in planned.program.ops if "hp" in op.tags] == []
    (only,) = search["pareto"]
    assert only["cosine"] >= 0.995
    assert only["passed"]
