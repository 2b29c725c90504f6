"""External data comes from the model's folder, fits what the tensors declare, and from nowhere else."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from nnkit.errors import ModelError, UserFileError
from nnkit.importers import import_onnx, model_file_digest
from nnkit.importers.external_data import MissingDataError

WEIGHT = np.arange(4 * 4 * 3 * 3, dtype=np.float32).reshape(4, 4, 3, 3)


@pytest.fixture
def model_folder(tmp_path: Path, make_model: Any) -> Path:
    """inside/net.onnx with its weight in inside/data/net.bin from offset 64, and outside.bin beside the folder."""
    folder = tmp_path / "inside"
    (folder / "data").mkdir(parents=True)
    content = b"\xff" * 64 + WEIGHT.tobytes()
    (folder / "data" / "net.bin").write_bytes(content)
    (tmp_path / "outside.bin").write_bytes(content)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    model = make_model([node], {"w": WEIGHT})
    (folder / "net.onnx").write_bytes(_pointing(model, location="data/net.bin", offset=64, length=WEIGHT.nbytes))
    return folder


def _pointing(model: onnx.ModelProto, **entries: Any) -> bytes:
    """`model` with its first initializer external, `entries` as its external_data."""
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    del tensor.external_data[:]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return model.SerializeToString()


def _repoint(folder: Path, **entries: Any) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(_pointing(onnx.load(path, load_external_data=False), **entries))
    return path


def _weight(path: Path) -> np.ndarray[Any, Any]:
    (tensor,) = import_onnx(path).model.proto().graph.initializer
    return onnx.numpy_helper.to_array(tensor)


def test_data_is_read_from_its_offset(model_folder: Path) -> None:
    result = import_onnx(model_folder / "net.onnx")
    np.testing.assert_array_equal(_weight(model_folder / "net.onnx"), WEIGHT)
    assert [path.name for path in result.files] == ["net.onnx", "net.bin"]


def test_the_digest_covers_the_data(model_folder: Path) -> None:
    before = model_file_digest(model_folder / "net.onnx")
    assert before == model_file_digest(model_folder / "net.onnx")
    data = bytearray((model_folder / "data" / "net.bin").read_bytes())
    data[-1] ^= 1
    (model_folder / "data" / "net.bin").write_bytes(data)
    assert model_file_digest(model_folder / "net.onnx") != before


def test_files_as_onnx_writes_them(tmp_path: Path, make_model: Any) -> None:
    model = make_model([helper.make_node("Conv", ["x", "w"], ["y"])], {"w": WEIGHT})
    path = tmp_path / "net.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").exists()
    np.testing.assert_array_equal(_weight(path), WEIGHT)


@pytest.mark.parametrize("location", ["../outside.bin", "data/../../outside.bin", "{absolute}", "..\\outside.bin"])
def test_paths_that_leave_the_folder(model_folder: Path, location: str) -> None:
    outside = model_folder.parent / "outside.bin"
    path = _repoint(model_folder, location=location.format(absolute=outside), offset=64, length=WEIGHT.nbytes)
    with pytest.raises(ModelError, match="outside the model's folder"):
        import_onnx(path)
    with pytest.raises(ModelError, match="outside the model's folder"):
        model_file_digest(path)


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_links_that_leave_the_folder(model_folder: Path, linked: str) -> None:
    data = model_folder / "data"
    shutil.move(data, model_folder.parent / "elsewhere")
    if linked == "folder":
        data.symlink_to(model_folder.parent / "elsewhere", target_is_directory=True)
    else:
        data.mkdir()
        (data / "net.bin").symlink_to(model_folder.parent / "outside.bin")
    with pytest.raises(ModelError, match="link that leaves the model's folder"):
        import_onnx(model_folder / "net.onnx")


def test_a_link_to_itself_has_a_remedy(model_folder: Path) -> None:
    (model_folder / "loop.bin").symlink_to("loop.bin")
    with pytest.raises(UserFileError, match=r"'loop\.bin' cannot be read") as caught:
        import_onnx(_repoint(model_folder, location="loop.bin"))
    assert caught.value.remedy


def test_a_link_within_the_folder_is_fine(model_folder: Path) -> None:
    (model_folder / "link.bin").symlink_to("data/net.bin")
    np.testing.assert_array_equal(_weight(_repoint(model_folder, location="link.bin", offset=64)), WEIGHT)


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": 65, "length": WEIGHT.nbytes},
        {"offset": 64, "length": WEIGHT.nbytes + 4},
        {"offset": 64, "length": WEIGHT.nbytes - 4},
        {"offset": -64, "length": WEIGHT.nbytes},
        {"offset": 1 << 62, "length": WEIGHT.nbytes},
        {"offset": "here", "length": WEIGHT.nbytes},
    ],
)
def test_offsets_and_lengths_that_do_not_fit(model_folder: Path, entries: Any) -> None:
    with pytest.raises(ModelError, match="tensor 'w' of 576 bytes claims offset"):
        import_onnx(_repoint(model_folder, location="data/net.bin", **entries))


@pytest.mark.parametrize("read", [import_onnx, model_file_digest])
def test_a_missing_data_file_is_named_as_the_model_names_it(
    model_folder: Path, read: Callable[[Path], object]
) -> None:
    (model_folder / "data" / "net.bin").unlink()
    with pytest.raises(MissingDataError, match=r": net.onnx keeps its weights in data/net.bin, which") as caught:
        read(model_folder / "net.onnx")
    assert caught.value.locations == ("data/net.bin",)
    assert caught.value.where == str(model_folder / "net.onnx")
    assert "put data/net.bin beside it" in caught.value.remedy


@pytest.mark.parametrize("location", ["", "data", "."])
def test_no_data_file(model_folder: Path, location: str) -> None:
    with pytest.raises(ModelError, match=r"names no data file|is a folder"):
        import_onnx(_repoint(model_folder, location=location))


def test_checksums_are_verified(model_folder: Path) -> None:
    right = hashlib.sha1((model_folder / "data" / "net.bin").read_bytes()).hexdigest()
    np.testing.assert_array_equal(
        _weight(_repoint(model_folder, location="data/net.bin", offset=64, checksum=right)), WEIGHT
    )
    with pytest.raises(ModelError, match="checksum"):
        import_onnx(_repoint(model_folder, location="data/net.bin", offset=64, checksum="0" * 40))
