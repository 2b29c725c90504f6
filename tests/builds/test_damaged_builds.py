"""Commands on a build folder that was damaged end with exit code 2, a reason and a remedy."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.builds import open_build
from nnkit.errors import NnkitError, UserFileError


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    return pipeline.run(make_build(write_project(folder)), folder / "out").folder


@pytest.fixture
def build(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "build"))


def everything(folder: Path) -> None:
    """What `compare`, `diagnose` and `simulate` read of a build."""
    opened = open_build(folder)
    opened.model("float.onnx")
    opened.model("restructured.onnx")
    opened.kept_inputs()


def test_a_whole_build_opens(build: Path) -> None:
    everything(build)


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda data: b"",
    lambda data: data[: len(data) // 2],
    lambda data: data[:-1],
    lambda data: data + b"\0",
    lambda data: bytes([data[0] ^ 1]) + data[1:],
    lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 16]) + data[len(data) // 2 + 1 :],
]


@pytest.mark.parametrize("name", ["program.nnkit", "float.onnx", "restructured.onnx"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_to_a_stage_is_told(build: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    (build / name).write_bytes(damage((build / name).read_bytes()))
    with pytest.raises(UserFileError, match=name) as caught:
        everything(build)
    assert "nnkit run" in caught.value.remedy


@pytest.mark.parametrize("name", ["float.onnx", "restructured.onnx"])
def test_a_network_with_numbers_in_another_file_is_refused(
    build: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of the folder that the command runs in, which is no part of the build."""
    proto = onnx.load(build / name)
    tensor = proto.graph.initializer[0]
    (build.parent / "mine").write_bytes(tensor.raw_data)
    tensor.external_data.add(key="location", value="mine")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    (build / name).write_bytes(proto.SerializeToString())
    report = json.loads((build / "report.json").read_text(encoding="utf-8"))
    report["stages"][name]["sha256"] = hashlib.sha256((build / name).read_bytes()).hexdigest()
    (build / "report.json").write_text(json.dumps(report), encoding="utf-8")
    monkeypatch.chdir(build.parent)
    with pytest.raises(UserFileError, match=f"{name} is no model in one piece: tensor '{tensor.name}' keeps"):
        everything(build)


@pytest.mark.parametrize("name", ["program.nnkit", "float.onnx", "report.json"])
def test_a_missing_file_is_named(build: Path, name: str) -> None:
    (build / name).unlink()
    with pytest.raises(UserFileError, match=f"it has no {name}|no {name}"):
        everything(build)


def test_what_is_no_file_counts_as_missing(build: Path) -> None:
    (build / "program.nnkit").unlink()
    (build / "program.nnkit").mkdir()
    with pytest.raises(UserFileError, match=r"it has no program\.nnkit") as caught:
        everything(build)
    assert "nnkit run" in caught.value.remedy


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "9" * 5000, "[" * 100_000, '{"target": 3}', '{"target": ""}', '{"target": "x@\\n"}'],
)
def test_a_report_that_is_none_is_told(build: Path, text: str) -> None:
    (build / "report.json").write_text(text)
    with pytest.raises(NnkitError) as caught:
        everything(build)
    assert caught.value.remedy
    assert caught.value.exit_code in (2, 5)


@pytest.mark.parametrize("stages", [None, 3, {}, {"program.nnkit": 1}, {"program.nnkit": {"sha256": "0"}}])
def test_a_report_without_its_stages_is_told(build: Path, stages: object) -> None:
    report = json.loads((build / "report.json").read_text())
    (build / "report.json").write_text(json.dumps({**report, "stages": stages}))
    with pytest.raises(UserFileError, match=r"program\.nnkit"):
        everything(build)


def test_kept_inputs_of_another_shape_are_told(build: Path) -> None:
    kept = sorted((build / "verify").glob("0_*_float.npy"))
    np.save(kept[0], np.zeros((1, 1, 3, 3), np.float32))
    with pytest.raises(UserFileError, match="shape"):
        everything(build)
    kept[0].write_bytes(b"PK\x03\x04")
    with pytest.raises(UserFileError, match="cannot be read"):
        everything(build)
