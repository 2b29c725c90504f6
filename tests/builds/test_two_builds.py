"""Two builds side by side: of one target in two precisions, and of two targets."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.builds import BuiltFolder, open_build
from nnkit.builds.two_builds import compare_builds
from nnkit.commands.compare import compare_command
from nnkit.errors import GateFailedError, UsageError, UserFileError

TARGETS = ("gap8", "gap8@int8", "onnx_qdq")


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BuiltFolder]:
    folder = tmp_path_factory.mktemp("builds")
    path = write_project(folder)
    text = path.read_text().replace("gap8: {}", "gap8: {}\n  gap8@int8: {precision: int8}\n  onnx_qdq: {}")
    path.write_text(text.replace("cosine: 0.99, sqnr_db: 20, max_abs: 10", "cosine: 0.5"))
    return {name: open_build(pipeline.run(make_build(path, target=name), folder / "out").folder) for name in TARGETS}


@pytest.mark.parametrize("other", TARGETS[1:])
def test_each_side_has_the_accuracy_that_its_own_report_gives(builds: dict[str, BuiltFolder], other: str) -> None:
    first, second = builds["gap8"], builds[other]
    found = compare_builds(first, second)
    reported = [{row["name"]: row for row in build.report["layers"]} for build in (first, second)]
    by_tensor = {op.output: op.name for op in second.program.ops}
    assert found.inputs == 3
    assert len(found.pairs) == len(reported[0])
    for pair in found.pairs:
        ours, theirs = reported[0][pair.layer], reported[1][by_tensor[pair.tensor]]
        assert pair.first_db == pytest.approx(ours["sqnr_db"], abs=1e-6)
        assert pair.second_db == pytest.approx(theirs["sqnr_db"], abs=1e-6)
        assert pair.formats.startswith(ours["formats"]["output"])
        assert " -> " in pair.formats
        # The finer one is the same as the float network as far as the coarser one can tell.
        assert pair.distance.sqnr_db == pytest.approx(pair.second_db, abs=1.0)


def test_values_of_one_build_alone_are_named(builds: dict[str, BuiltFolder]) -> None:
    found = compare_builds(builds["onnx_qdq"], builds["gap8"])
    # GAP8 pools inside the convolution; an affine program has the value between the two.
    assert found.only_first
    assert all(name.endswith(".before_pool") for name in found.only_first)
    assert found.only_second == ()
    assert compare_builds(builds["gap8"], builds["onnx_qdq"]).only_second == found.only_first
    affine = found.pairs[0].formats.split(" -> ")[0]
    tensor = builds["onnx_qdq"].program.tensors[found.pairs[0].tensor]
    assert affine == f"u8 {tensor.format.scale[0]:.3g}@{tensor.format.zero_point[0]}"


def test_a_build_equals_itself(builds: dict[str, BuiltFolder]) -> None:
    found = compare_builds(builds["gap8"], builds["gap8"])
    assert {pair.distance.max_abs for pair in found.pairs} == {0.0}
    assert all("->" not in pair.formats for pair in found.pairs)


def test_what_cannot_be_compared_is_refused(builds: dict[str, BuiltFolder], tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(builds["gap8"].folder, bare)
    shutil.rmtree(bare / "verify")
    with pytest.raises(UserFileError, match="no verification inputs"):
        compare_builds(open_build(bare), builds["gap8"])
    with pytest.raises(UsageError, match="different inputs"):
        compare_builds(builds["gap8"], _with_other_input(builds["gap8"]))


def _with_other_input(build: BuiltFolder) -> BuiltFolder:
    name = build.program.inputs[0]
    tensor = replace(build.program.tensors[name], shape=(1, 8, 8))
    program = replace(build.program, tensors={**build.program.tensors, name: tensor})
    return BuiltFolder(build.folder, build.report, program)


def test_the_command_prints_both_sides(builds: dict[str, BuiltFolder], capsys: pytest.CaptureFixture[str]) -> None:
    first, second = builds["onnx_qdq"].folder, builds["gap8"].folder
    with pytest.raises(GateFailedError, match="layers differ"):
        compare_command(first, second, json=True)
    shown = capsys.readouterr()
    rows = json.loads(shown.out)
    assert {"name", "layer", "a_sqnr_db", "b_sqnr_db", "cosine", "sqnr_db", "max_abs", "note"} == set(rows[0])
    assert f"note: values of {first} alone: " in shown.err
    with pytest.raises(GateFailedError):
        compare_command(first, second, json=False)
    lines = capsys.readouterr().out.splitlines()
    assert "SQNR dB against float" in lines[0]
    assert len(lines) == 2 + len(rows)
    assert f"{rows[0]['a_sqnr_db']:.2f}" in lines[2]
    compare_command(first, first, json=False)
    assert "equal" in capsys.readouterr().out
