"""Arrays of files that numpy wrote are what numpy reads; damaged ones end in one error and cost nothing."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from nnkit.errors import ExitCode, UserFileError
from nnkit.reading import read_array, read_arrays

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def refused(path: Path, said: str) -> None:
    with pytest.raises(UserFileError, match=said) as caught:
        read_arrays(path, what="the file", remedy="save it again")
    assert caught.value.exit_code == ExitCode.USER
    assert caught.value.where == str(path)
    assert caught.value.remedy


def npy(description: str, body: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = description.encode("latin1")
    return b"\x93NUMPY" + version + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text + body


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2", "|i1", "<u2", ">i8", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_as_numpy_reads_them(tmp_path: Path, dtype: str, order: str) -> None:
    np.save(tmp_path / "a.npy", np.asarray(VALUES.astype(dtype), order=order))
    mine = read_array(tmp_path / "a.npy", what="the file", remedy="")
    theirs = np.load(tmp_path / "a.npy")
    assert mine.dtype == theirs.dtype
    assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_are_as_numpy_reads_them(tmp_path: Path, save: object) -> None:
    save(tmp_path / "a.npz", x=VALUES, names=np.asarray(["p", "qq"]))  # type: ignore[operator]
    mine = read_arrays(tmp_path / "a.npz", what="the file", remedy="", kinds="fiubU")
    assert np.array_equal(mine["x"], VALUES)
    assert mine["names"].tolist() == ["p", "qq"]
    refused(tmp_path / "a.npz", "'names': it holds values of type <U2, not numbers")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b"\x93NUMPY", "its header"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)"), "its header"),
        (npy("(" * 9000), "its header"),
        (npy("-" * 9000 + "1"), "its header"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }"), "its header"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }"), "promises 4,398,046,511,104"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }"), "it holds no values"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", b"1234"), "no array has such a shape"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (True,), }", b"1234"), "no array has such a shape"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", b"12345678"), "promises 4 bytes"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps([1])), "not numbers"),
        (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", b"1234"), "not numbers"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", b"1234", b"\x09\x00"), "its header"),
        (pickle.dumps([1, 2]), "its header"),
        (b"PK\x03\x04" + b"\x00" * 40, "damaged zip"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    refused(path, said)


def test_every_cut_and_every_changed_byte_of_an_archive_ends_in_an_error_or_an_array(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.savez_compressed(whole, x=VALUES)
    data, path = whole.getvalue(), tmp_path / "a.npz"
    for at in range(len(data)):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]):
            path.write_bytes(damaged)
            with suppress(UserFileError):
                assert read_arrays(path, what="the file", remedy="save it again")


def test_an_archive_that_unfolds_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(1 << 26, np.uint8))
    assert (tmp_path / "a.npz").stat().st_size < 1 << 17
    refused(tmp_path / "a.npz", "more than 32 times its size")


def test_a_packing_that_numpy_does_not_write_is_refused(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.save(content, VALUES)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", content.getvalue())
    refused(tmp_path / "a.npz", "numpy does not write")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "none.npy", "does not exist")
    refused(tmp_path, "it is a folder")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "not a regular file")
    (tmp_path / "loop").symlink_to("loop")
    refused(tmp_path / "loop", "symbolic links")


@pytest.mark.parametrize("order", "<>")
def test_texts_with_a_character_beyond_unicode_are_refused(tmp_path: Path, order: str) -> None:
    """Python makes a text of them that ends whatever looks at it with a SystemError."""
    path = tmp_path / "a.npy"
    np.save(path, np.asarray(["ab", "\U0010ffff"], f"{order}U2"))
    given = {"what": "the file", "remedy": "save it again", "kinds": "U"}
    assert read_array(path, **given).tolist() == ["ab", "\U0010ffff"]  # type: ignore[arg-type]
    data = path.read_bytes()
    last = (0x10FFFF).to_bytes(4, "little" if order == "<" else "big")
    beyond = (0x110000).to_bytes(4, "little" if order == "<" else "big")
    path.write_bytes(data.replace(last, beyond))
    with pytest.raises(UserFileError, match="a character that does not exist"):
        read_array(path, **given)  # type: ignore[arg-type]
