"""What a package says is proven of it, checked again from the package alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.c.host_compiler import host_compiler
from nnkit.errors import GateFailedError, UserFileError
from nnkit.package import build_package, verify_package
from nnkit.package.contradiction import ContradictionError
from nnkit.package.envelope import read_envelope
from nnkit.package.plan_proof import check_plan
from nnkit.package.proofs import check_proofs
from nnkit.package.provenance import PROVENANCE_NAME, SBOM_NAME
from nnkit.report.build import file_entry

if host_compiler() is None:
    pytest.skip("no C compiler", allow_module_level=True)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("proofs")
    return pipeline.run(make_build(write_project(folder)), folder / "out").folder


def repacked(build: Path, place: Path, name: str, change: Callable[[Any], None]) -> Path:
    """A package of the build with one of its JSON files changed: whole in itself, its report's digests too."""
    shutil.copytree(build, place)
    content = json.loads((place / name).read_text())
    change(content)
    (place / name).write_text(json.dumps(content))
    if name != "report.json":
        report = json.loads((place / "report.json").read_text())
        report["files"][name] = file_entry((place / name).read_bytes())
        (place / "report.json").write_text(json.dumps(report))
    return build_package(place, place / "x.nnpkg")


def test_a_release_keeps_its_proofs(build: Path) -> None:
    result = check_proofs(verify_package(next(build.glob("*.nnpkg"))))
    assert len(result.checked) == 5
    assert "1 runners without a difference" in result.checked[1]
    layers = json.loads((build / "report.json").read_text())["layers"]
    convolutions = sum(layer["op"] == "conv2d" for layer in layers)
    assert f"those of {convolutions} layers" in result.checked[3]
    assert sum(result.accumulators.values()) == len(layers) - convolutions


def overlap(plan: Any) -> None:
    sized = [each for each in plan["buffers"].values() if each["region"] == "l2" and each["size_bytes"]]
    for buffer in sized[:2]:
        buffer.update(offset_bytes=0, first_step=0, last_step=1)


def outside(plan: Any) -> None:
    plan["regions"]["l1"]["peak_bytes"] = 1


def dead(plan: Any) -> None:
    step = plan["steps"][-1]
    plan["buffers"][plan["tensors"][step["writes"][0]]["buffer"]].update(last_step=step["index"] - 1)


def differs(report: Any) -> None:
    next(e for e in report["verify"]["program_vs_artifact"] if e["contract"] != "not_run")["mismatches"] = 3


def not_run(report: Any) -> None:
    for entry in report["verify"]["program_vs_artifact"]:
        entry["contract"] = "not_run"


def wraps(report: Any) -> None:
    next(layer for layer in report["layers"] if layer["proof"] == "proven")["observed"]["wraps"] = 1


def heavy(report: Any) -> None:
    sums = next(layer["accumulator_sums"] for layer in report["layers"] if "accumulator_sums" in layer)
    sums["channels"][0]["positive"] = (1 << 31) // sums["high"] + 1


def narrow(report: Any) -> None:
    next(layer for layer in report["layers"] if "accumulator_sums" in layer)["accumulator_sums"]["high"] = 1 << 15


def gate(report: Any) -> None:
    report["verify"]["gates"][0]["measured"] = report["verify"]["float_vs_program"]["cosine"] = 0.5


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("plan.json", overlap, "share bytes of l2"),
        ("plan.json", outside, "are stated"),
        ("plan.json", dead, "does not live then"),
        ("plan.json", lambda plan: plan.pop("steps"), "cannot be read"),
        ("report.json", differs, "found 3 differences"),
        ("report.json", not_run, "nothing has run it"),
        ("report.json", gate, "demands 0.99, 0.5 was measured"),
        ("report.json", wraps, "are called proven, and wrapped"),
        ("report.json", heavy, "beyond an int32 accumulator"),
        ("report.json", narrow, r"32768, which s16\.\d+ does not hold"),
    ],
)
def test_a_proof_that_does_not_hold_is_found(
    build: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    change: Callable[[Any], None],
    reason: str,
) -> None:
    """It is not packed, and found in what another program has packed."""
    with pytest.raises(GateFailedError, match=reason):
        repacked(build, tmp_path / "here", name, change)
    assert not (tmp_path / "here" / "x.nnpkg").exists()
    monkeypatch.setattr("nnkit.package.build.check_evidence", lambda evidence, files: ())
    package = repacked(build, tmp_path / "elsewhere", name, change)
    with pytest.raises(GateFailedError, match=reason):
        check_proofs(verify_package(package))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("plan.json", b"conv1", b"conv0"), ("layers.csv", b"conv1", b"conv0"), ("recipe.yaml", b"1.2.3", b"1.2.4")],
)
def test_what_was_changed_beside_the_report_is_not_packed(
    build: Path, tmp_path: Path, name: str, old: bytes, new: bytes
) -> None:
    place = tmp_path / "b"
    shutil.copytree(build, place)
    (place / name).write_bytes((place / name).read_bytes().replace(old, new))
    with pytest.raises(GateFailedError, match="was changed after it was verified") as error:
        build_package(place, place / "x.nnpkg")
    assert error.value.where == str(place / name)


@pytest.mark.parametrize("entry", [None, {}, {"sha256": None}, {"sha256": "AB" * 32}])
def test_a_stage_without_a_digest_is_not_packed(build: Path, tmp_path: Path, entry: Any) -> None:
    with pytest.raises(UserFileError, match=r"no SHA-256 of float\.onnx"):
        repacked(build, tmp_path / "b", "report.json", lambda report: report["stages"].update({"float.onnx": entry}))


def test_provenance_and_materials_name_every_file_and_no_time(build: Path, tmp_path: Path) -> None:
    package = next(build.glob("*.nnpkg"))
    verified = verify_package(package)
    files = {n: r.sha256 for n, r in verified.manifest.files.items() if n not in (PROVENANCE_NAME, SBOM_NAME)}
    statement = json.loads(read_envelope(PROVENANCE_NAME, verified.documents[PROVENANCE_NAME]).payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert {each["name"]: each["digest"]["sha256"] for each in statement["subject"]} == files
    definition = statement["predicate"]["buildDefinition"]
    assert {each["name"] for each in definition["resolvedDependencies"]} >= {"float.onnx", "program.nnkit"}
    materials = json.loads(verified.documents[SBOM_NAME])
    assert (materials["bomFormat"], materials["specVersion"]) == ("CycloneDX", "1.5")
    assert {each["name"]: each["hashes"][0]["content"] for each in materials["components"]} == files
    again = build_package(build, tmp_path / "again.nnpkg")
    assert again.read_bytes() == package.read_bytes()


PLAIN = {"order": "pixels", "channels": 4, "out_channels": 4, "input_bytes": 1, "output_bytes": 1, "groups": 1}
WINDOW = {"height": 4, "width": 4, "out_height": 4, "out_width": 4, "kernel": [3, 3], "stride": [1, 1]}
ACCESSES = PLAIN | {"together": 1, "rereads": False, "window": WINDOW | {"padding": [1, 1], "dilation": [1, 1]}}
"""A depthwise convolution of 3 x 3 over 4 x 4 pixels of 4 channels: while it writes pixel p it still reads the next
one's window, which begins at p - 4; and has to begin 5 pixels of 4 bytes above."""


def two_buffers(offset: int, last: int, first: int = 1) -> dict[str, Any]:
    """The second step writes y below x, which it reads."""
    sizes = {"region": "arena", "size_bytes": 64}
    buffers = {
        "x": {"name": "x", **sizes, "offset_bytes": offset, "first_step": 0, "last_step": last},
        "y": {"name": "y", **sizes, "offset_bytes": 0, "first_step": first, "last_step": 2},
    }
    return {
        "version": 2,
        "regions": {"arena": {"peak_bytes": 64 + offset, "capacity_bytes": 64 + offset}},
        "buffers": buffers,
        "tensors": {name: {"buffer": name, "offset_bytes": 0, "size_bytes": 64} for name in buffers},
        "steps": [
            {"index": 0, "reads": [], "writes": ["x"]},
            {"index": 1, "reads": ["x"], "writes": ["y"]},
            {"index": 2, "reads": ["y"], "writes": []},
        ],
        "overlaps": [{"step": 1, "read": "x", "written": "y", "accesses": ACCESSES}],
    }


def test_a_result_may_lie_over_what_its_step_reads_as_its_accesses_allow() -> None:
    buffers, said = check_plan(two_buffers(20, 1))
    assert buffers == 2
    assert said == "; 1 is written in place, which the order of accesses allows"


def another(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda plan: plan["overlaps"][0].update(accesses=ACCESSES | changes)


@pytest.mark.parametrize(
    ("plan", "change", "reason"),
    [
        (two_buffers(19, 1), None, "needs 20 bytes between their starts, and has 19"),
        (two_buffers(20, 2), None, "step 1 is not the last that reads"),
        (two_buffers(20, 1, first=0), None, "step 1 is not the last that reads"),
        (two_buffers(20, 1), lambda plan: plan.update(overlaps=[]), "share bytes of arena at one time$"),
        (two_buffers(20, 1), lambda plan: plan["steps"][1].update(reads=[]), "does not read 'x'"),
        (two_buffers(20, 1), another(channels=3), "those of other tensors"),
        (two_buffers(20, 1), another(rereads=True), "needs 24 bytes"),
        (two_buffers(20, 1), another(window={**WINDOW, "dilation": [1, 1]}), "padding"),
    ],
)
def test_a_result_that_its_accesses_do_not_allow_is_refused(
    plan: dict[str, Any], change: Callable[[dict[str, Any]], None] | None, reason: str
) -> None:
    if change is not None:
        change(plan)
    with pytest.raises((ContradictionError, KeyError), match=reason):
        check_plan(plan)


@pytest.mark.parametrize(("offset", "last"), [(8, 1), (0, 1), (8, 2)])
def test_a_plan_of_version_1_has_its_planners_word(offset: int, last: int) -> None:
    """Builds from before plans named their accesses are still packed, where buffers meet in one step alone."""
    plan = two_buffers(offset, last) | {"version": 1}
    if (offset, last) == (8, 1):
        assert "which the planner alone vouches for" in check_plan(plan)[1]
    else:
        with pytest.raises(ContradictionError, match="share bytes"):
            check_plan(plan)
