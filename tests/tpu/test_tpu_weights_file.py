"""The archive of weights has the same bytes whatever release of Python writes it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from nnkit_tpu.weights_file import write_npz


def test_an_archive_holds_the_arrays_and_no_version_but_the_lowest(tmp_path: Path) -> None:
    arrays = {"a/b": np.arange(6, dtype=np.float32).reshape(2, 3), "c": np.array([], np.float32), "d": np.float32(2)}
    write_npz(tmp_path / "weights.npz", arrays)
    with np.load(tmp_path / "weights.npz") as read:
        assert read.files == ["a/b", "c", "d"]
        assert all(np.array_equal(read[name], values) for name, values in arrays.items())
    with zipfile.ZipFile(tmp_path / "weights.npz") as archive:
        members = archive.infolist()
    assert {(m.create_version, m.extract_version, m.create_system, m.extra) for m in members} == {(20, 20, 3, b"")}
    assert {(m.date_time, m.compress_type) for m in members} == {((1980, 1, 1, 0, 0, 0), zipfile.ZIP_STORED)}
