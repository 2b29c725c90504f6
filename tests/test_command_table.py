"""`nnkit table convert` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from small_project import RECIPE, make_build, write_project
from typer.testing import CliRunner

from nnkit import pipeline
from nnkit.builds import open_build
from nnkit.cli import app
from nnkit.errors import NnkitError, UserFileError
from nnkit.quantize import read_pinned_formats
from nnkit.quantize.tables import read_any_table
from nnkit.report.calibration_table import lines_read
from nnkit_tpu.calibration_table import read_table


def test_there_and_back(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("a.txt", "b.yaml", "c.txt"))
    first.write_text("# ours\nconv1 1.5000000 -1.5000000 0.2500000\nfc 2.0000000 -0.5000000 2.0000000\n")
    done = CliRunner().invoke(app, ["table", "convert", str(first), str(second)])
    assert done.exit_code == 0, done.output
    assert "2 values" in done.output
    assert read_any_table(second).kind == "nnkit"
    done = CliRunner().invoke(app, ["table", "convert", str(second), str(third), "--to", "tpu", "--json"])
    assert json.loads(done.output) == {"from": "nnkit", "to": "tpu", "values": 2, "out": str(third)}
    assert read_table(third) == read_table(first)


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One network for both targets of integers that follow a table: `out/small/gap8`, `out/small/onnx_qdq`."""
    folder = tmp_path_factory.mktemp("tables")
    recipe = RECIPE.replace("gap8: {}", "gap8: {}\n  onnx_qdq: {}") + "calibration: {method: mse}\n"
    write_project(folder, recipe)
    for target in ("gap8", "onnx_qdq"):
        pipeline.run(make_build(folder / "recipe.yaml", target=target), folder / "out")
    return folder / "out/small"


def convert(*words: object) -> Result:
    return CliRunner().invoke(app, ["table", "convert", *map(str, words)])


def test_ranges_of_an_own_qdq_model_go_into_a_build_s_table_and_give_its_formats_again(
    builds: Path, tmp_path: Path
) -> None:
    table = tmp_path / "table.yaml"
    done = convert(builds / "onnx_qdq/artifact/model.onnx", table, "--onto", builds / "onnx_qdq", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["kept"], found["values"]) == ([], len(read_any_table(table).ranges))
    again, before = (read_any_table(path).ranges for path in (table, builds / "onnx_qdq/calibration.yaml"))
    read = lines_read(table.read_text())
    assert read == lines_read((builds / "onnx_qdq/calibration.yaml").read_text())
    for name, reach in before.items():
        if name not in read:
            assert again[name] == reach
            continue
        # A format stands for 256 numbers from low to high and holds zero: it ends within a unit of the range.
        unit = (max(reach.high, 0.0) - min(reach.low, 0.0)) / 255
        assert again[name].low == pytest.approx(min(reach.low, 0.0), abs=unit)
        assert again[name].high == pytest.approx(max(reach.high, 0.0), abs=unit)
        assert again[name].observed_high == reach.observed_high


def test_what_the_build_does_not_know_and_what_it_keeps_is_named(builds: Path, tmp_path: Path) -> None:
    known = sorted(lines_read((builds / "gap8/calibration.yaml").read_text()))
    table = tmp_path / "tpu.txt"
    table.write_text(f"{known[0]} 3.0 -1.0 3.0\nelsewhere 1.0 0.0 1.0\n")
    done = convert(table, tmp_path / "out.yaml", "--onto", builds / "gap8", "--json")
    found = json.loads(done.output)
    assert (found["taken"], found["not_in_the_build"], sorted(found["kept"])) == (1, ["elsewhere"], known[1:])
    reach = read_any_table(tmp_path / "out.yaml").ranges[known[0]]
    assert (reach.low, reach.high) == (-1.0, 3.0)

    table.write_text("elsewhere 1.0 0.0 1.0\n")
    done = convert(table, tmp_path / "out.yaml", "--onto", builds / "gap8")
    assert isinstance(done.exception, UserFileError)
    assert "none of its 1 names" in str(done.exception)


def test_formats_of_a_fixed_point_build_are_written_for_later_builds(builds: Path, tmp_path: Path) -> None:
    assert convert(builds / "gap8", tmp_path / "formats.json", "--to", "pinned").exit_code == 0
    pinned = read_pinned_formats(tmp_path / "formats.json")
    program = open_build(builds / "gap8").program
    for op in program.ops:
        if op.name in pinned.layers:
            assert pinned.layers[op.name].output_frac == program.tensors[op.output].fixed.frac
    assert {op.name for op in program.ops if op.weight_formats()} == set(pinned.layers)
    for source in (builds / "onnx_qdq", tmp_path / "formats.json"):
        assert isinstance(convert(source, tmp_path / "no.json", "--to", "pinned").exception, NnkitError)
        assert not (tmp_path / "no.json").exists()
