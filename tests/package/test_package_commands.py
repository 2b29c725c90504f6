"""`nnkit package inspect|extract`: what people see, also of packages that other programs wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nnkit.commands.package import extract_command, inspect_command, verify_command
from nnkit.errors import GateFailedError, UserFileError
from nnkit.package import Manifest, write_archive


def test_inspect_shows_tensors_memory_and_files(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspect_command(package, json=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "gap8_reid 1.2.0 for gap8, made by nnkit 0.1.0"
    assert "input image 1x1x4x4 s16.0" in lines
    assert "output face 1x2 s16.10" in lines
    assert any(line.endswith(" artifact/weights.bin") and line.startswith("40 B ") for line in lines)


FOREIGN: list[dict[str, Any]] = [
    {"memory": {"l2": {"peak_bytes": 7}}},
    {"memory": {"l2": 7}},
    {"accuracy": {}},
    {"accuracy": {"float_vs_program": None}},
    {"accuracy": {"float_vs_program": {"cosine": None}}},
    {"accuracy": {"float_vs_program": {"cosine": "high"}}},
    {"inputs": [{}], "outputs": []},
    {"inputs": ["image"], "outputs": [{"shape": 4}]},
]


@pytest.mark.parametrize("changes", FOREIGN)
def test_inspect_shows_what_it_can_of_a_package_of_another_make(
    changes: dict[str, Any], manifest: Manifest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_archive({"a.txt": b"abc"}, replace(manifest, **changes), tmp_path / "foreign.nnpkg")
    inspect_command(path, json=False)
    assert "a.txt" in capsys.readouterr().out
    inspect_command(path, json=True)
    assert json.loads(capsys.readouterr().out)["name"] == "gap8_reid"


def test_inspect_shows_the_accuracy_of_a_report(
    manifest: Manifest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = replace(manifest, accuracy={"float_vs_program": {"cosine": 0.99995}})
    inspect_command(write_archive({"a": b""}, known, tmp_path / "known.nnpkg"), json=False)
    assert "cosine  0.999950 against float" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("release", "lines"),
    [
        ({"notes": "First release.\nNeeds L2 of 512 KiB.\n"}, ["First release.", "Needs L2 of 512 KiB."]),
        ({"notes": "red \x1b[31m"}, [r"red \x1b[31m"]),  # nothing that a terminal would act on
        ({"notes": None}, []),
        ({}, []),
        (None, []),
        ("1.0.0", []),
    ],
)
def test_inspect_shows_the_notes_of_the_release(
    release: Any, lines: list[str], manifest: Manifest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noted = replace(manifest, recipe={**manifest.recipe, "release": release})
    inspect_command(write_archive({"a": b""}, noted, tmp_path / "noted.nnpkg"), json=False)
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  notes")]
    assert shown == [f"  notes   {line}" for line in lines]


def test_extract_unpacks_everything(package: Path, files: dict[str, bytes], tmp_path: Path) -> None:
    extract_command(package, tmp_path / "unpacked", json=False)
    for name, content in files.items():
        assert (tmp_path / "unpacked" / name).read_bytes() == content


def test_extract_leaves_a_folder_in_use_and_writes_nothing_of_a_damaged_package(
    package: Path, tmp_path: Path
) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / "mine").write_text("")
    with pytest.raises(UserFileError):
        extract_command(package, used, json=False)
    assert [path.name for path in used.iterdir()] == ["mine"]
    data = bytearray(package.read_bytes())
    data[len(data) // 2] ^= 1
    package.write_bytes(bytes(data))
    with pytest.raises(GateFailedError):
        extract_command(package, tmp_path / "new", json=False)
    assert not (tmp_path / "new").exists()


def test_verify_without_a_readable_key(package: Path, tmp_path: Path) -> None:
    with pytest.raises(UserFileError, match="public key"):
        verify_command(package, tmp_path / "missing.pem", json=False)
