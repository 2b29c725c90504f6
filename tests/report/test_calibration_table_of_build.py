"""A build's calibration table: pinned in its recipe it gives the same program; lines that are not read say so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_project import RECIPE, make_build, write_project

from nnkit import pipeline
from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.calibrate.table import read_table_of
from nnkit.quantize.used_ranges import UsedRanges
from nnkit.report.calibration_table import calibration_table


def built(folder: Path, recipe: str, out: str) -> Path:
    (folder / "recipe.yaml").write_text(recipe)
    target = "gap8" if "gap8:" in recipe else "onnx_qdq"
    return pipeline.run(make_build(folder / "recipe.yaml", target=target), folder / out).folder


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("mse", "gap8: {precision: int16}"),  # ranges for 16 bits, and headroom
        ("kl", "gap8: {precision: int8, tags: {hp: ['*']}}"),
        ("percentile", "gap8: {precision: int16}"),  # no headroom
        ("mse", "onnx_qdq: {}"),  # affine ranges
        ("max", "onnx_qdq: {precision: int16}"),
        ("percentile", "onnx_qdq: {precision: a16w8}"),
    ],
)
def test_a_pinned_table_gives_the_same_program(method: str, target: str, tmp_path: Path) -> None:
    recipe = RECIPE.replace("gap8: {}", target) + f"calibration: {{method: {method}}}\n"
    write_project(tmp_path, recipe)
    first = built(tmp_path, recipe, "first")
    (tmp_path / "pinned.yaml").write_bytes((first / "calibration.yaml").read_bytes())
    again = built(tmp_path, re.sub(r"\{method: .*\}", "{table: pinned.yaml}", recipe), "again")
    assert (again / "program.nnkit").read_bytes() == (first / "program.nnkit").read_bytes()

    # An edit of a line that is read changes the program, one of a line that is not does not.
    text = (first / "calibration.yaml").read_text()
    read, unread = ([line for line in text.splitlines() if line.endswith(end)] for end in ("}", "}  # not read"))
    for lines, differs in ((read, True), (unread, False)):
        edited = text
        for line in lines:
            edited = edited.replace(line, re.sub(r"low: [^,]+, high: [^,]+,", "low: -3.0, high: 77.0,", line))
        (tmp_path / "pinned.yaml").write_text(edited)
        changed = built(tmp_path, re.sub(r"\{method: .*\}", "{table: pinned.yaml}", recipe), "edited")
        found = (changed / "program.nnkit").read_bytes() != (first / "program.nnkit").read_bytes()
        assert found is (differs and bool(lines))


def test_lines_that_are_not_read_are_marked_and_the_table_reads_the_same(tmp_path: Path) -> None:
    ranges = {name: ValueRange(-1.0, 2.0, -1.0, 2.5) for name in ("x", 'odd "name"', "y")}
    stats = CalibrationStats(ranges, "percentile", 3, "abc", percentile=99.5)
    path = tmp_path / "table.yaml"
    path.write_text(calibration_table(UsedRanges(stats, frozenset({"x", "y"}))))
    marked = [line for line in path.read_text().splitlines() if line.endswith("# not read")]
    assert len(marked) == 1
    assert "odd" in marked[0]
    again = read_table_of(path, list(ranges))
    assert (again.ranges, again.percentile, again.images) == (stats.ranges, 99.5, 3)
    whole = calibration_table(UsedRanges(stats, frozenset(ranges)))
    assert "not read" not in whole
