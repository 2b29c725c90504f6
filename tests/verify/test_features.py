"""Feature files of every form, ranges and distances; `nnkit evaluate` from end to end."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from nnkit_command import run_nnkit

from nnkit.errors import UserFileError
from nnkit.verify.features import feature_distance, feature_ranges, read_features

VALUES = np.asarray([[0.0, 1.0], [0.5, 1.0], [8.0, -2.0], [8.0, -1.5]])
NAMES = ["a/1", "a/2", "b/1", "b/2"]


def write(folder: Path, form: str, values: np.ndarray = VALUES) -> Path:
    if form == "npz":
        np.savez(folder / "f.npz", features=values, names=np.asarray(NAMES))
        return folder / "f.npz"
    if form == "txt":
        lines = [f"{n} {' '.join(map(str, v))}" for n, v in zip(NAMES, values.tolist(), strict=True)]
        (folder / "f.txt").write_text("# from a board\n" + "\n".join(lines) + "\n")
        return folder / "f.txt"
    if form == "csv":
        lines = [f"{n},{','.join(map(str, v))}" for n, v in zip(NAMES, values.tolist(), strict=True)]
        (folder / "f.csv").write_text("\n".join(lines) + "\n")
        return folder / "f.csv"
    for name, value in zip(NAMES, values, strict=True):
        path = folder / "set" / f"{name}.{form}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if form == "bin":
            value.astype("<f4").tofile(path)
        else:
            np.save(path, value.reshape(2, 1, 1))
    return folder / "set"


@pytest.mark.parametrize("form", ["npz", "txt", "csv", "bin", "npy"])
def test_every_form_gives_the_same_features(tmp_path: Path, form: str) -> None:
    found = read_features(write(tmp_path, form))
    assert list(found.names) == NAMES
    assert np.array_equal(found.values, VALUES)


def test_ranges_and_distance_by_hand(tmp_path: Path) -> None:
    found = read_features(write(tmp_path, "npz"))
    ranges = feature_ranges(found)
    assert ranges.vmin.tolist() == [0.0, -2.0]
    assert ranges.vdiff.tolist() == [8.0, 3.0]
    gap = feature_distance(found, found)
    assert (gap.images, gap.cosine_min, gap.largest) == (4, pytest.approx(1.0), 0.0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a 1 2\nb 1\n", "1 to 2 values"),
        ("a 1 two\n", "not a vector"),
        ("", "no vectors"),
        ("a 1 nan\n", "'a' holds a value that is not a number"),
    ],
)
def test_bad_feature_files_are_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "f.txt"
    path.write_text(content)
    with pytest.raises(UserFileError, match=said):
        read_features(path)


def evaluate(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_nnkit("evaluate", *arguments)


def test_the_command_scores_pairs_ranges_and_distance(tmp_path: Path) -> None:
    mine = write(tmp_path, "npz")
    board = tmp_path / "board"
    board.mkdir()
    other = write(board, "txt", VALUES + 0.25)
    done = evaluate(
        mine,
        "--by-folder",
        "--metric",
        "l2",
        "--fpr",
        0.3,
        "--against",
        other,
        "--ranges",
        tmp_path / "r.csv",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["verification"] == {
        "same_pairs": 2,
        "different_pairs": 4,
        "false_positive_rate": 0.3,
        "recall": 1.0,
        "accuracy": 1.0,
        "threshold": pytest.approx(np.hypot(7.5, 3.0)),  # the second-nearest of the pairs of two people
    }
    assert data["distance"]["max_abs"] == 0.25
    assert (tmp_path / "r.csv").read_text() == "dimension,vmin,vdiff\n0,0.0,8.0\n1,-2.0,3.0\n"
    assert "recall" in evaluate(mine, "--by-folder").stdout


def test_what_cannot_be_scored_is_said(tmp_path: Path) -> None:
    done = evaluate(tmp_path / "none.npz")
    assert done.returncode == 2
    assert "the file of features does not exist" in done.stderr
    np.save(tmp_path / "f.npy", VALUES)
    done = evaluate(tmp_path / "f.npy", "--by-folder")
    assert done.returncode == 2
    assert "needs both kinds of pairs" in done.stderr
