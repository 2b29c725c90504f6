"""Several recipes and targets at a time: every build by itself, one failure does not stop the others."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_project import write_project


def nnkit(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nnkit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def recipes(tmp_path: Path) -> list[Path]:
    """One recipe with two variants, and one whose gate cannot hold."""
    write_project(tmp_path)
    text = (tmp_path / "recipe.yaml").read_text()
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(text.replace("gap8: {}", "gap8: {}\n  gap8@int8: {precision: int8}").replace("small", "good"))
    bad.write_text(text.replace("sqnr_db: 20", "sqnr_db: 390").replace("small", "bad"))
    return [bad, good]


@pytest.mark.parametrize("how", [("--jobs", "2"), ("--executor", "dask", "--workers", "2"), ()], ids=str)
def test_a_sweep_builds_everything_and_reports_what_failed(
    recipes: list[Path], tmp_path: Path, how: tuple[str, ...]
) -> None:
    if "dask" in how:
        pytest.importorskip("distributed")
    out = tmp_path / "out"
    done = nnkit("run", *recipes, "--out", out, "--no-qemu", *how)
    assert done.returncode == 1, done.stderr
    assert "gate sqnr_db" in done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0][:3] == ["recipe", "target", "status"]
    assert [(Path(line[0]).name, line[1], line[2]) for line in lines[1:]] == [
        ("bad.yaml", "gap8", "gate_failed"),
        ("good.yaml", "gap8", "ok"),
        ("good.yaml", "gap8@int8", "ok"),
    ]
    alone = nnkit("run", recipes[1], "--out", tmp_path / "alone", "--no-qemu", "--no-cache")
    assert alone.returncode == 0, alone.stderr
    for key in ("gap8", "gap8@int8"):
        both = [json.loads((place / "good" / key / "report.json").read_text()) for place in (out, tmp_path / "alone")]
        assert both[0] == both[1]


def test_a_recipe_that_cannot_be_read_stops_a_sweep_before_it_begins(recipes: list[Path], tmp_path: Path) -> None:
    recipes[0].write_text("nnkit: 1\n")
    done = nnkit("run", *recipes, "--out", tmp_path / "out", "--jobs", "2")
    assert done.returncode == 2
    assert not (tmp_path / "out").exists()


def test_a_build_that_cannot_be_made_is_one_line_of_the_table(recipes: list[Path], tmp_path: Path) -> None:
    shutil.copy(recipes[1], tmp_path / "other.yaml")
    (tmp_path / "net2.onnx").write_bytes(b"no network")
    (tmp_path / "other.yaml").write_text(
        (tmp_path / "other.yaml").read_text().replace("net.onnx", "net2.onnx").replace("good", "other")
    )
    done = nnkit("run", tmp_path / "other.yaml", recipes[1], "-t", "gap8@int8", "--out", tmp_path / "out", "--json")
    assert done.returncode == 3, done.stderr
    rows = json.loads(done.stdout)
    assert [row["status"] for row in rows] == ["failed", "ok"]
    assert "net2.onnx" in rows[0]["error"]


def test_two_builds_that_would_go_to_one_folder_are_refused_before_anything_is_built(
    recipes: list[Path], tmp_path: Path
) -> None:
    recipes[0].write_text(recipes[1].read_text())
    done = nnkit("run", *recipes, "--out", tmp_path / "out", "--no-qemu")
    assert done.returncode == 2
    assert "bad.yaml" in done.stderr
    assert "good.yaml" in done.stderr
    assert "both build 'good' for gap8" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_word_that_an_option_does_not_know_is_answered_with_those_it_knows(recipes: list[Path]) -> None:
    done = nnkit("run", recipes[0], "--executor", "ray")
    assert done.returncode == 2
    assert "'ray' is not one of 'local', 'dask'" in done.stderr
    assert "Value error" not in done.stderr
