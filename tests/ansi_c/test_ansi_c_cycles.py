"""Estimated cycles, against instructions that are counted under QEMU and shapes counted by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from small_project import make_build, write_project
from typer.testing import CliRunner

from nnkit.api.building import run_build
from nnkit.boards import BOARDS
from nnkit.builds import open_build
from nnkit.cli import app
from nnkit.program import Program
from nnkit_ansi_c.cycles import duration, estimated, work_of


def written(folder: Path, precision: str) -> Path:
    path = write_project(folder)
    path.write_text(path.read_text().replace("gap8: {}", f"ansi_c: {{precision: {precision}}}"))
    return path


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A SqueezeNet that had no part in the fit, in two precisions."""
    folders = {}
    for precision in ("int8", "float32"):
        folder = tmp_path_factory.mktemp(precision)
        made = make_build(written(folder, precision), target="ansi_c")
        folders[precision] = run_build(made, folder / "out")[0].folder
    return folders


def report_of(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


@pytest.mark.parametrize(
    ("precision", "core"), [("int8", "cortex-m4"), ("int8", "rv32imac"), ("float32", "cortex-m4")]
)
def test_a_network_takes_about_what_is_estimated(builds: dict[str, Path], precision: str, core: str) -> None:
    """Its maps are smaller than those of the networks that the costs come from, so that each call weighs more."""
    if (missing := BOARDS[core].missing()) is not None:
        pytest.skip(missing)
    done = CliRunner().invoke(app, ["bench", str(builds[precision]), "--on", core, "--json"])
    counted = json.loads(done.stdout)
    told = report_of(builds[precision])["details"]["estimated_cycles"][core]
    assert told["not_estimated"] == []
    assert told["cycles"] == pytest.approx(counted["instructions"], rel=0.15)
    for row in counted["layers"]:
        if row["macs"] > 50_000:
            assert told["layers"][row["layer"]] == pytest.approx(row["instructions"], rel=0.3), row


def test_the_plan_tells_the_same_before_anything_is_compiled(builds: dict[str, Path], tmp_path: Path) -> None:
    path = written(tmp_path, "int8")
    done = CliRunner().invoke(app, ["plan", str(path), "--json"])
    planned = json.loads(done.stdout)["estimates"]
    assert planned["cycles"] == report_of(builds["int8"])["details"]["estimated_cycles"]
    text = CliRunner().invoke(app, ["plan", str(path), "--set", "targets.ansi_c.clock_mhz=84"]).stdout
    assert f"{planned['cycles']['cortex-m4']['cycles'] / 84e3:.3g} ms at 84 MHz" in text
    assert "estimated cycles on cortex-m4" in text
    assert f"cortex-m4 about {planned['cycles']['cortex-m4']['cycles']:,}" in text


def test_the_report_marks_it_as_an_estimate(builds: dict[str, Path]) -> None:
    report = report_of(builds["int8"])
    time, speed = report["speed"]
    assert (speed["what"], speed["unit"], speed["kind"]) == ("cycles", "cycles", "estimate")
    assert (time["unit"], time["kind"], "at 168 MHz" in time["how"]) == ("ms", "estimate", True)
    assert time["value"] == pytest.approx(speed["value"] / 168e3)
    with (builds["int8"] / "layers.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["cycles"]) for row in rows) == speed["value"]
    assert sum(float(row["milliseconds"]) for row in rows) == pytest.approx(time["value"], rel=1e-3)
    page = json.loads((builds["int8"] / "page.json").read_text())
    (table,) = [each for each in page["tables"] if "Estimated" in each["title"]]
    assert len(table["rows"]) == len(report["layers"])


def test_work_is_counted_from_shapes(builds: dict[str, Path]) -> None:
    program: Program = open_build(builds["int8"]).program
    conv = next(op for op in program.ops if op.kind == "conv2d" and op.window.kernel_h == 3)
    channels, height, width = program.tensors[conv.output].shape
    inputs = program.tensors[conv.inputs[0]].shape[0]
    work = work_of(conv, program)
    assert work is not None
    assert (work.kind, work.numbers, work.calls) == ("convolution", "int8", 1)
    assert (work.outputs, work.positions, work.rows) == (channels * height * width, height * width, channels * height)
    assert (work.gathered, work.visits) == (height * width * 9 * inputs, height * width * 9)
    depth = -(-9 * inputs // 4) * 4  # weights of a map are packed by four
    assert work.macs == channels * height * width * depth


def test_costs_of_other_numbers_are_not_taken(builds: dict[str, Path]) -> None:
    """Floats were measured on one core alone."""
    assert set(estimated(open_build(builds["float32"]).program)) == {"cortex-m4"}


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0.0, "0 ns"),
        (7.7e-5, "77 ns"),
        (0.001, "0.001 ms"),
        (12.34, "12.3 ms"),
        (99.9, "99.9 ms"),
        (1868.2, "1,868 ms"),
    ],
)
def test_times_are_in_units_that_need_no_exponent(time_ms: float, text: str) -> None:
    assert duration(time_ms) == text
