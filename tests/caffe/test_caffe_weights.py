"""Binary files: weights in every form that writers have used, mean images, and damaged ones."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from benchmarks.caffe_corpus import caffemodel
from nnkit.caffe.schema import messages
from nnkit.caffe.weights import read_caffemodel, read_user_bytes, write_mean_file
from nnkit.errors import ModelError, UserFileError

ARRAY = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)


def one_blob(blob: object) -> bytes:
    net = messages.NetParameter()
    layer = net.layer.add(name="conv", type="Convolution")
    layer.blobs.add().ParseFromString(blob.SerializeToString())  # type: ignore[attr-defined]
    return bytes(net.SerializeToString())


def test_shapes_new_and_old() -> None:
    assert np.array_equal(read_caffemodel(caffemodel({"conv": [ARRAY]}), "f")["conv"].arrays[0], ARRAY)
    old = read_caffemodel(caffemodel({"conv": [ARRAY]}, old=True), "f")["conv"].arrays[0]
    assert old.shape == (1, 2, 3, 4)
    assert np.array_equal(old[0], ARRAY)


def test_layers_of_the_old_form() -> None:
    net = messages.NetParameter()
    layer = net.layers.add(name="ip", type=messages.V1LayerParameter.INNER_PRODUCT)
    blob = layer.blobs.add(num=1, channels=1, height=2, width=3)
    blob.data.extend(range(6))
    found = read_caffemodel(net.SerializeToString(), "f")["ip"].arrays[0]
    assert np.array_equal(found, np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3))


def test_doubles_halves_and_unpacked_floats() -> None:
    doubles = messages.BlobProto()
    doubles.shape.dim.append(3)
    doubles.double_data.extend([0.5, -1.25, 3])
    assert read_caffemodel(one_blob(doubles), "f")["conv"].arrays[0].tolist() == [0.5, -1.25, 3]
    half = messages.WeightBlob(raw_data_type=2, raw_data=np.float16([0.5, -2]).tobytes())
    half.shape.dim.append(2)
    data = messages.WeightFile(layer=[{"name": "conv", "blobs": [half]}]).SerializeToString()
    assert read_caffemodel(data, "f")["conv"].arrays[0].tolist() == [0.5, -2]
    unpacked = b"".join(b"\x2d" + struct.pack("<f", value) for value in (1.5, 2.5))  # field 5, wire type 5
    blob = b"\x08\x01\x10\x01\x18\x01\x20\x02" + unpacked
    layer = b"\x0a\x04conv\x3a" + bytes([len(blob)]) + blob
    data = b"\xa2\x06" + bytes([len(layer)]) + layer
    assert messages.NetParameter.FromString(data).layer[0].blobs[0].data[1] == 2.5  # the bytes are what they claim
    assert read_caffemodel(data, "f")["conv"].arrays[0].ravel().tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("dims", "count", "words"),
    [
        ([2, 3], 5, "declares 6 numbers"),
        ([2**40, 2**40], 5, "declares"),
        ([-1, 3], 3, "senseless shape"),
        ([1] * 40, 1, "senseless shape"),
    ],
)
def test_arrays_that_do_not_hold_what_they_declare(dims: list[int], count: int, words: str) -> None:
    blob = messages.BlobProto()
    blob.shape.dim.extend(dims)
    blob.data.extend([1.0] * count)
    with pytest.raises(ModelError, match=words) as caught:
        read_caffemodel(one_blob(blob), "w.caffemodel")
    assert "layer 'conv'" in caught.value.where


def test_numbers_that_are_none() -> None:
    with pytest.raises(ModelError, match="not finite"):
        read_caffemodel(caffemodel({"conv": [np.float32([1, np.nan])]}), "f")


@pytest.mark.parametrize("cut", [1, 7, 30, 60])
def test_truncated_files(cut: int) -> None:
    data = caffemodel({"conv": [ARRAY], "fc": [ARRAY]})
    with pytest.raises(ModelError, match=r"truncated or damaged|declares"):
        read_caffemodel(data[:-cut], "f")


def test_a_prototxt_in_its_place_and_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the file is text, not a caffemodel"):
        read_caffemodel(b'name: "net"\nlayer { name: "x" }\n', "f")
    with pytest.raises(UserFileError, match="does not exist"):
        read_user_bytes(tmp_path / "nothing", "the caffemodel")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ModelError, match="is empty"):
        read_user_bytes(tmp_path / "empty", "the caffemodel")
    (tmp_path / "pointer").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid x")
    with pytest.raises(ModelError, match="Git LFS pointer"):
        read_user_bytes(tmp_path / "pointer", "the caffemodel")


def test_mean_image() -> None:
    plain = messages.BlobProto.FromString(write_mean_file(ARRAY))
    assert (plain.num, plain.channels, plain.height, plain.width) == (1, 2, 3, 4)
    assert np.array_equal(np.float32(plain.data), ARRAY.ravel())
