"""`.npy` inputs: taken as they are, and nothing else gets in."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest

from nnkit.errors import UserFileError
from nnkit.preprocess import load_array

SHAPE = (1, 2, 2, 3)
VALUES = np.arange(12.0).reshape(SHAPE) - 5.5


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2"])
def test_real_numbers_of_any_type(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "a.npy", VALUES.astype(dtype))
    loaded = load_array(tmp_path / "a.npy", SHAPE)
    assert loaded.dtype == np.float32
    assert np.array_equal(loaded, VALUES)


def test_integers_fortran_order_and_missing_batch(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(np.arange(12, dtype=np.int16).reshape(2, 2, 3)))
    loaded = load_array(tmp_path / "a.npy", SHAPE)
    assert loaded.shape == SHAPE
    assert loaded.flags.c_contiguous
    assert loaded.ravel().tolist() == list(range(12))


class _Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('a pickle was executed')",))


def _refused(path: Path, reason: str) -> None:
    with pytest.raises(UserFileError, match=reason) as caught:
        load_array(path, SHAPE)
    assert caught.value.where == str(path)
    assert caught.value.remedy


def test_wrong_arrays(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, VALUES.reshape(2, 1, 2, 3))
    _refused(path, r"shape \[2, 1, 2, 3\], the network takes \[1, 2, 2, 3\]")
    np.save(path, VALUES.astype(complex))
    _refused(path, "complex128")
    np.save(path, np.array([[["x"] * 3] * 2] * 2))
    _refused(path, "not of real numbers")
    np.save(path, np.where(VALUES > 0, np.nan, VALUES))
    _refused(path, "NaN")
    np.save(path, VALUES * 1e300)
    _refused(path, "beyond float32")


def test_broken_files(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, VALUES)
    whole = path.read_bytes()
    for length in (4, 9, 40, len(whole) - 1):
        path.write_bytes(whole[:length])
        _refused(path, "the array cannot be read")
    path.write_text("text")
    _refused(path, "the array cannot be read")
    path.write_bytes(b"")
    _refused(path, "empty")
    np.savez(tmp_path / "a.npz", VALUES)
    path.write_bytes((tmp_path / "a.npz").read_bytes())
    _refused(path, "the array cannot be read")


def test_pickles_are_never_run(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(pickle.dumps(_Trap()))
    _refused(path, "the array cannot be read")
    objects = np.empty(SHAPE, dtype=object)
    objects[:] = _Trap()
    np.save(path, objects, allow_pickle=True)
    _refused(path, "not of real numbers")


def test_a_false_size_takes_no_memory(tmp_path: Path) -> None:
    header = io.BytesIO()
    description = {"descr": "<f8", "fortran_order": False, "shape": (1 << 45,)}
    np.lib.format.write_array_header_1_0(header, description)
    path = tmp_path / "a.npy"
    path.write_bytes(header.getvalue() + bytes(64))
    _refused(path, "the network takes")


@pytest.mark.parametrize("batch", [True, False])
def test_an_array_with_its_channels_last_is_told_how_they_get_to_the_front(tmp_path: Path, batch: bool) -> None:
    shape = (1, 3, 4, 5)
    wanted = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    last = np.moveaxis(wanted, 1, -1) if batch else np.moveaxis(wanted, 1, -1)[0]
    np.save(tmp_path / "a.npy", last)
    with pytest.raises(UserFileError, match=r"its channels last; nnkit takes them first: \[1, 3, 4, 5\]") as caught:
        load_array(tmp_path / "a.npy", shape)
    assert caught.value.remedy == f"save numpy.moveaxis(array, -1, {1 if batch else 0})"
    np.save(tmp_path / "a.npy", np.moveaxis(last, -1, 1 if batch else 0))
    assert np.array_equal(load_array(tmp_path / "a.npy", shape), wanted), "as it was proposed"
