"""Several recipes and targets at a time: every build by itself, one failure does not stop the others."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_project import write_project

from nnkit.cli import main
from nnkit.commands.sweep import Job
from nnkit.commands.sweep_table import SweepTable
from nnkit.recipe.grid import Point
from nnkit.report.journal import Journal, StageEvent
from nnkit.report.progress import Progress

KEYS = ("gap8", "gap8@int8")

Nnkit = Callable[..., "subprocess.CompletedProcess[str]"]


def process(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, as where it starts others."""
    command = [sys.executable, "-m", "nnkit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def nnkit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Nnkit:
    """A command in this process, which is quicker."""

    def command(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = ["nnkit", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess(words, ended.value.code, said.out, said.err)

    return command


def write_recipes(folder: Path) -> list[Path]:
    """One recipe with two variants, and one whose gate cannot hold."""
    write_project(folder)
    text = (folder / "recipe.yaml").read_text()
    good, bad = folder / "good.yaml", folder / "bad.yaml"
    good.write_text(text.replace("gap8: {}", "gap8: {}\n  gap8@int8: {precision: int8}").replace("small", "good"))
    bad.write_text(text.replace("sqnr_db: 20", "sqnr_db: 390").replace("small", "bad"))
    return [bad, good]


@pytest.fixture
def recipes(tmp_path: Path) -> list[Path]:
    return write_recipes(tmp_path)


def report_of(build: Path) -> Any:
    return json.loads((build / "report.json").read_text())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Reports of the two builds that pass, made by themselves and without the cache."""
    folder = tmp_path_factory.mktemp("alone")
    recipe = write_recipes(folder)[1]
    done = process("run", recipe, "--out", folder / "out", "--no-qemu", "--no-cache")
    assert done.returncode == 0, done.stderr
    return {key: report_of(folder / "out/good" / key) for key in KEYS}


@pytest.mark.parametrize("how", [("--jobs", "2"), ("--executor", "dask", "--workers", "2"), ()], ids=str)
def test_a_sweep_builds_everything_and_reports_what_failed(
    recipes: list[Path], tmp_path: Path, how: tuple[str, ...], alone: dict[str, Any], nnkit: Nnkit
) -> None:
    if "dask" in how:
        pytest.importorskip("distributed")
    out = tmp_path / "out"
    done = (process if how else nnkit)("run", *recipes, "--out", out, "--no-qemu", *how)
    assert done.returncode == 1, done.stderr
    assert "gate sqnr_db" in done.stderr
    assert ("dashboard of Dask: http://127.0.0.1:" in done.stderr) == ("dask" in how)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0][:3] == ["recipe", "target", "status"]
    assert [(Path(line[0]).name, line[1], line[2]) for line in lines[1:]] == [
        ("bad.yaml", "gap8", "gate_failed"),
        ("good.yaml", "gap8", "ok"),
        ("good.yaml", "gap8@int8", "ok"),
    ]
    for key in KEYS:
        assert report_of(out / "good" / key) == alone[key]


def test_a_recipe_that_cannot_be_read_stops_a_sweep_before_it_begins(
    recipes: list[Path], tmp_path: Path, nnkit: Nnkit
) -> None:
    recipes[0].write_text("nnkit: 1\n")
    done = nnkit("run", *recipes, "--out", tmp_path / "out", "--jobs", "2")
    assert done.returncode == 2
    assert not (tmp_path / "out").exists()


def test_a_mistake_at_one_point_of_the_grid_stops_it_before_it_begins(
    recipes: list[Path], tmp_path: Path, nnkit: Nnkit
) -> None:
    recipes[1].write_text(recipes[1].read_text() + "sweep: {calibration.headroom: [1.0, wide]}\n")
    done = nnkit("run", *recipes, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "'headroom' must be a number" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_command_on_the_page_of_a_point_makes_the_same_build(
    recipes: list[Path], tmp_path: Path, nnkit: Nnkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    setting = "targets.gap8.precision=[int8,  'int16']"
    swept = nnkit("run", recipes[1], "--set", setting, "-t", "gap8@int16", "--no-qemu", "--out", "first")
    assert swept.returncode == 0, swept.stderr
    build = Path("good", "gap8@int16")
    page = (("first" / build) / "report.html").read_text()
    command = re.search(r"To reproduce</h3>\s*<pre[^>]*><code>(.*?)</code>", page, re.DOTALL)
    assert command is not None
    words = shlex.split(html.unescape(command[1]))
    assert words[:3] == ["nnkit", "run", "good.yaml"]
    again = nnkit(*words[1:], "--out", "second")
    assert again.returncode == 0, again.stderr
    for name in ("report.json", "recipe.yaml"):
        assert ("second" / build / name).read_bytes() == ("first" / build / name).read_bytes()


def test_a_build_that_cannot_be_made_is_one_line_of_the_table(
    recipes: list[Path], tmp_path: Path, nnkit: Nnkit
) -> None:
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
    recipes: list[Path], tmp_path: Path, nnkit: Nnkit
) -> None:
    recipes[0].write_text(recipes[1].read_text())
    done = nnkit("run", *recipes, "--out", tmp_path / "out", "--no-qemu")
    assert done.returncode == 2
    assert "bad.yaml" in done.stderr
    assert "good.yaml" in done.stderr
    assert "both build 'good' for gap8" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_word_that_an_option_does_not_know_is_answered_with_those_it_knows(
    recipes: list[Path], nnkit: Nnkit
) -> None:
    done = nnkit("run", recipes[0], "--executor", "ray")
    assert done.returncode == 2
    assert "'ray' is not one of 'local', 'dask'" in done.stderr
    assert "Value error" not in done.stderr


SWEEP = """
sweep:
  targets.gap8.precision: [int16, int8]
  targets.gap8.memory.l2: [512KiB, 2KiB]
"""


def test_a_grid_is_built_and_its_table_says_what_each_build_is(tmp_path: Path, nnkit: Nnkit) -> None:
    recipe = write_project(tmp_path)
    recipe.write_text(recipe.read_text() + SWEEP)
    out = tmp_path / "out"
    done = nnkit("run", recipe, "--out", out, "--no-qemu", "--set", "verify.gates.cosine=0.9")
    assert done.returncode == 4, done.stderr
    with (out / "small/sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["target"], row["status"]) for row in rows] == [
        ("gap8@int16-512KiB", "ok"),
        ("gap8@int16-2KiB", "failed"),
        ("gap8@int8-512KiB", "ok"),
        ("gap8@int8-2KiB", "failed"),
    ]
    assert all("do not fit the 2,048 bytes of L2" in row["reason"] for row in rows[1::2])
    for row in rows[::2]:
        assert (out / "small" / row["page"]).is_file()
        report = json.loads((out / "small" / row["target"] / "report.json").read_text())
        assert int(row["l2_bytes"]) == report["memory"]["l2"]["peak_bytes"]
        assert float(row["value"]) == report["verify"]["float_vs_program"]["cosine"]
        assert [gate["limit"] for gate in report["verify"]["gates"] if gate["name"] == "cosine"] == [0.9]
        assert {f"int{tensor['bits']}" for tensor in report["outputs"]} == {row["targets.gap8.precision"]}
    page = (out / "small/sweep.html").read_text()
    assert "All are done." in page
    assert sorted(path.name for path in (out / "small").iterdir()) == [
        "gap8@int16-512KiB",
        "gap8@int8-512KiB",
        "sweep.csv",
        "sweep.html",
    ]
    gate = ("--set", "verify.gates.cosine=0.9")
    one = nnkit("run", recipe, "--out", out, "--no-qemu", "-t", "gap8@int8-512KiB", "--json", *gate)
    assert one.returncode == 0, one.stderr
    assert [report["target"] for report in json.loads(one.stdout)] == ["gap8@int8-512KiB"]
    with (out / "small/sweep.csv").open(newline="") as file:
        again = {row["target"]: row for row in csv.DictReader(file)}
    assert list(again) == ["gap8@int8-512KiB", "gap8@int16-512KiB"]
    assert again["gap8@int16-512KiB"] == rows[0] | {"seconds": ""}  # as it was, though it was not built again

    other = nnkit(
        "run", recipe, "--out", out, "--no-qemu", "-t", "gap8@int8-512KiB", "--set", "verify.gates.cosine=0.8"
    )
    assert other.returncode == 0, other.stderr
    with (out / "small/sweep.csv").open(newline="") as file:
        assert [row["target"] for row in csv.DictReader(file)] == [
            "gap8@int8-512KiB"
        ]  # the other is of another recipe


def test_lists_of_set_span_a_grid_and_the_table_follows_what_runs(tmp_path: Path, nnkit: Nnkit) -> None:
    recipe = write_project(tmp_path)
    options = ("--out", tmp_path / "out", "--no-qemu", "--set", "targets=[gap8, onnx_qdq]")
    done = nnkit("run", recipe, *options, "--set", "calibration.headroom=[1, 2]")
    assert done.returncode == 0, done.stderr
    names = [line.split()[1] for line in done.stdout.splitlines()[1:5]]
    assert names == ["gap8@headroom1", "gap8@headroom2", "onnx_qdq@headroom1", "onnx_qdq@headroom2"]
    recipes = [(tmp_path / "out/small" / name / "recipe.yaml").read_text() for name in names]
    assert [yaml.safe_load(text)["calibration"]["headroom"] for text in recipes] == [1, 2, 1, 2]


def test_the_rows_of_running_builds_say_their_stage(tmp_path: Path) -> None:
    jobs = [
        Job(tmp_path / "r.yaml", "net", Point(key, key), journal=tmp_path / f"{key}.jsonl") for key in ("one", "two")
    ]
    table = SweepTable(tmp_path, "net", jobs, tmp_path, None)
    progress = Progress(stream=io.StringIO())
    with progress.stage("builds", 2) as step, table.following(step):
        Journal(tmp_path / "two.jsonl").add(StageEvent("calibrate", "running"))
        while "calibrate" not in table.page.read_text():
            time.sleep(0.01)
        assert "waiting" in table.csv.read_text().splitlines()[1]
        assert "running" in table.csv.read_text().splitlines()[2]
    assert "the sweep was ended before" in table.csv.read_text()
