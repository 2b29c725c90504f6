"""`nnkit bench`: the library on emulated boards; ONNX Runtime is the truth of every layer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_project import make_build, write_project
from typer.testing import CliRunner

from nnkit.api.building import run_build
from nnkit.boards import BOARDS
from nnkit.cli import app
from nnkit.errors import GateFailedError, UsageError, UserFileError
from nnkit.report.build import file_entry
from nnkit.trust import mark_of_report


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder for ansi_c."""
    folder = tmp_path_factory.mktemp("boards")
    path = write_project(folder)
    path.write_text(path.read_text().replace("gap8: {}", "ansi_c: {}"))
    return run_build(make_build(path, target="ansi_c"), folder / "out")[0].folder


@pytest.mark.parametrize("name", list(BOARDS))
def test_every_layer_is_compared_and_counted(build: Path, name: str) -> None:
    missing = BOARDS[name].missing()
    if missing is not None:
        pytest.skip(missing)
    done = CliRunner().invoke(app, ["bench", str(build), "--on", name, "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["on"], told["contract"], told["mismatches"]) == (name, "bounded", 0)
    assert told["values"] > 1000
    counts = [row["instructions"] for row in told["layers"]]
    assert sum(counts) == pytest.approx(told["instructions"], rel=0.02)
    assert told["macs"] == sum(row["macs"] for row in told["layers"])
    assert told["measured"]["arena_bytes"] > 0
    assert 1000 < told["measured"]["code_bytes"] < 32_000
    assert 0 < told["measured"]["stack_bytes"] < 4096


def test_a_table_for_people_and_a_difference_that_ends_with_its_layer(build: Path, tmp_path: Path) -> None:
    if (missing := BOARDS["cortex-m4"].missing()) is not None:
        pytest.skip(missing)
    done = CliRunner().invoke(app, ["bench", str(build), "--on", "cortex-m4"])
    assert "whole network on cortex-m4" in done.stdout
    assert "0 of " in done.stdout
    changed = tmp_path / "changed"
    shutil.copytree(build, changed)
    weights = changed / "artifact/small_weights.bin"
    content = weights.read_bytes()
    weights.write_bytes(content[:3] + b"\x44" + content[4:])
    done = CliRunner().invoke(app, ["bench", str(changed), "--on", "cortex-m4"])
    assert isinstance(done.exception, UserFileError)
    report = json.loads((changed / "report.json").read_text())
    report["artifact"][weights.name] = file_entry(weights.read_bytes())
    (changed / "report.json").write_text(json.dumps(report))
    (changed / "run.json").write_text(json.dumps({"made_here": mark_of_report(changed)}))
    done = CliRunner().invoke(app, ["bench", str(changed), "--on", "cortex-m4"])
    assert isinstance(done.exception, GateFailedError)
    assert "layer " in str(done.exception)


def test_an_unknown_board_is_refused_with_those_that_there_are(build: Path) -> None:
    done = CliRunner().invoke(app, ["bench", str(build), "--on", "z80"])
    assert isinstance(done.exception, UsageError)
    assert "cortex-m4, cortex-m7, rv32imac" in str(done.exception)
