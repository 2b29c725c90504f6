"""From a build folder to a package: what goes in, what stays out, and which builds are refused."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from nnkit.errors import GateFailedError, UsageError, UserFileError
from nnkit.package import build_package, verify_package

RECIPE = """\
nnkit: 1
name: demo
targets: {gap8: {}}
verify: {gates: {}}
postprocess:
- {kind: face_crop, size: 64}
release: {version: 2.1.0}
"""


FACE = {"cosine": 0.9999, "sqnr_db": 36.9, "max_abs": 0.01}
USE = {"capacity_bytes": 524288, "peak_bytes": 1000, "lower_bound_bytes": 1000, "proven_optimal": True}
PLAN = {
    "planner": "none",
    "regions": {"l2": USE},
    "buffers": {
        "x": {
            **{"name": "x", "kind": "scratch", "region": "l2"},
            **{"offset_bytes": 0, "size_bytes": 1000, "first_step": 0, "last_step": 0},
        }
    },
    "tensors": {},
    "steps": [],
    "chunks": [],
    "l3_weight_bytes": 0,
    "notes": [],
}


def entry(data: bytes) -> dict[str, object]:
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


@pytest.fixture
def build_dir(tmp_path: Path) -> Path:
    """A finished build, as a run leaves it."""
    folder = tmp_path / "gap8"
    (folder / "artifact/src").mkdir(parents=True)
    (folder / "verify").mkdir()
    artifact = {"weights.bin": b"\x01\x02", "src/network.c": b"int x;\n"}
    for name, data in artifact.items():
        (folder / "artifact" / name).write_bytes(data)
    for name in ("run.json", "float.onnx", "restructured.onnx", "verify/input.npy", "old-1.0.0-gap8.nnpkg"):
        (folder / name).write_bytes(b"not for release")
    (folder / "plan.json").write_text(json.dumps(PLAN))
    (folder / "layers.csv").write_text("layer\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    report = {
        "nnkit": "0.1.0",
        "recipe": "demo",
        "target": "gap8",
        "status": "ok",
        "tools": {"gcc": "12.2.0"},
        "macs": 0,
        "layers": [],
        "memory": {"l2": USE},
        "planner": {"name": "none", "weight_bytes": 0, "notes": []},
        "calibration": {"method": "max"},
        "inputs": [{"name": "image", "shape": [1, 1, 64, 64], "format": "s16.0", "bits": 16, "signed": True}],
        "outputs": [{"name": "image", "shape": [1, 1, 64, 64], "format": "s16.0", "bits": 16, "signed": True}],
        "segments": [],
        "rewrites": [],
        "verify": {
            "float_vs_program": {**FACE, "by_output": {"image": FACE}, "inputs": 1, "seen_by_calibration": 0},
            "worst": [],
            "program_vs_artifact": [{"how": "host", "contract": "exact", "values": 8, "inputs": 1, "mismatches": 0}],
            "gates": [],
        },
        "artifact": {name: entry(data) for name, data in artifact.items()},
        "files": {name: entry((folder / name).read_bytes()) for name in ("plan.json", "layers.csv", "recipe.yaml")},
    }
    (folder / "report.json").write_text(json.dumps(report))
    return folder


def change_report(build_dir: Path, **values: object) -> None:
    path = build_dir / "report.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_the_package_holds_what_is_released_and_nothing_else(build_dir: Path) -> None:
    package = build_package(build_dir)
    assert package == build_dir / "demo-2.1.0-gap8.nnpkg"
    manifest = verify_package(package).manifest
    assert sorted(manifest.files) == [
        "artifact/src/network.c",
        "artifact/weights.bin",
        "layers.csv",
        "plan.json",
        "provenance.intoto.json",
        "recipe.yaml",
        "report.json",
        "sbom.cdx.json",
    ]
    assert manifest.recipe["release"] == {"version": "2.1.0"}
    assert manifest.postprocess == [{"kind": "face_crop", "size": 64}]
    assert manifest.memory["l2"]["peak_bytes"] == 1000
    assert manifest.accuracy["float_vs_program"]["cosine"] == 0.9999
    assert manifest.inputs[0]["shape"] == [1, 1, 64, 64]
    assert manifest.tools == {"gcc": "12.2.0"}


def test_the_same_build_gives_the_same_bytes(build_dir: Path, tmp_path: Path) -> None:
    first = build_package(build_dir, tmp_path / "a.nnpkg")
    os.utime(build_dir / "plan.json", (1, 1))
    (build_dir / "artifact/weights.bin").chmod(0o755)
    (tmp_path / "folder").mkdir()
    second = build_package(build_dir, tmp_path / "folder")
    assert second == tmp_path / "folder/demo-2.1.0-gap8.nnpkg"
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("status", ["gate_failed", "mismatch", None])
def test_a_build_that_did_not_pass_is_not_released(build_dir: Path, status: str | None) -> None:
    change_report(build_dir, status=status)
    with pytest.raises(GateFailedError, match="only ok and unproven are released"):
        build_package(build_dir)
    assert len(list(build_dir.glob("*.nnpkg"))) == 1  # the old one


def test_an_artifact_changed_after_verification_is_not_released(build_dir: Path) -> None:
    (build_dir / "artifact/src/network.c").write_text("int y;\n")
    with pytest.raises(GateFailedError, match="was changed after it was verified") as caught:
        build_package(build_dir)
    assert caught.value.where.endswith("network.c")


def test_a_file_that_was_not_verified_is_not_released(build_dir: Path) -> None:
    (build_dir / "artifact/extra.o").write_text("")
    with pytest.raises(GateFailedError, match=r"extra\.o"):
        build_package(build_dir)


def test_a_verified_file_that_is_gone_is_named(build_dir: Path) -> None:
    (build_dir / "artifact/weights.bin").unlink()
    with pytest.raises(GateFailedError, match=r"weights\.bin"):
        build_package(build_dir)


@pytest.mark.parametrize("name", ["report.json", "plan.json", "layers.csv", "recipe.yaml"])
def test_an_incomplete_build_is_refused(build_dir: Path, name: str) -> None:
    (build_dir / name).unlink()
    with pytest.raises(UserFileError) as caught:
        build_package(build_dir)
    assert name in str(caught.value)
    assert "nnkit run" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "text"),
    [("report.json", "{"), ("report.json", "[]"), ("recipe.yaml", "a: ["), ("plan.json", "[" * 100_000)],
)
def test_an_unreadable_build_is_refused(build_dir: Path, name: str, text: str) -> None:
    (build_dir / name).write_text(text)
    with pytest.raises(UserFileError) as caught:
        build_package(build_dir)
    assert caught.value.where.startswith(str(build_dir / name))


def test_missing_values_are_named(build_dir: Path) -> None:
    report = json.loads((build_dir / "report.json").read_text())
    del report["tools"]
    (build_dir / "report.json").write_text(json.dumps(report))
    with pytest.raises(UsageError, match="does not say: tools"):
        build_package(build_dir)


def test_a_link_in_the_artifact_is_refused(build_dir: Path) -> None:
    (build_dir / "artifact/link").symlink_to("/etc")
    with pytest.raises(UserFileError, match="artifact/link: is a link to /etc"):
        build_package(build_dir)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserFileError, match=r"has no report\.json"):
        build_package(tmp_path / "none")


def test_a_recipe_whose_keys_are_of_several_types_is_refused(build_dir: Path) -> None:
    with (build_dir / "recipe.yaml").open("a") as file:
        file.write("odd: {null: 1, text: 2}\n")
    report = json.loads((build_dir / "report.json").read_text())
    change_report(
        build_dir, files={**report["files"], "recipe.yaml": entry((build_dir / "recipe.yaml").read_bytes())}
    )
    with pytest.raises(UsageError, match="the keys of a mapping are of several types") as caught:
        build_package(build_dir)
    assert caught.value.remedy
