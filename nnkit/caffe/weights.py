"""The binary files of Caffe: the caffemodel's weights by layer, and mean images.

A file is checked before anything of its size is made: an array never has more numbers than the file has bytes for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError
from nnkit.reading import read_regular_file

MAX_WEIGHT_LAYERS = 20_000
MAX_WEIGHT_BLOBS = 100_000
MAX_DIMENSIONS = 32
_LFS_POINTER = b"version https://git-lfs"
_COPY_AGAIN = "copy the file again, or take it from its source again"
_DOUBLE, _FLOAT, _HALF = 0, 1, 2  # NVIDIA's raw_data_type


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Weights of one layer as stored: float32 arrays, C order, in the shapes that the file declares."""

    name: str
    arrays: tuple[NDArray[np.float32], ...]


def read_caffemodel(data: bytes, where: str) -> dict[str, LayerWeights]:
    """Weights by layer name; of layers of one name the last that has any, as Caffe takes them.

    Raises:
        ModelError: the bytes are no caffemodel, or an array does not hold what its shape declares.
    """
    from nnkit.caffe.schema import messages

    file = _parsed(messages.WeightFile(), data, where, "a caffemodel")
    layers = [*file.layer, *file.layers] if len(file.layer) + len(file.layers) <= MAX_WEIGHT_LAYERS else None
    if layers is None or sum(len(layer.blobs) for layer in layers) > MAX_WEIGHT_BLOBS:
        raise ModelError(
            f"the file has more than {MAX_WEIGHT_LAYERS:,} layers or {MAX_WEIGHT_BLOBS:,} arrays",
            where=where,
            remedy=_COPY_AGAIN,
        )
    weights: dict[str, LayerWeights] = {}
    for layer in layers:
        name = _text(layer, "name", where)
        if layer.blobs:
            place = f"{where}: layer '{name}'"
            arrays = tuple(_array(blob, place, f"array {i + 1}") for i, blob in enumerate(layer.blobs))
            weights[name] = LayerWeights(name, arrays)
    return weights


def write_mean_file(mean: NDArray[np.float32]) -> bytes:
    """A mean image [C, H, W] as the bytes of a .binaryproto."""
    from nnkit.caffe.schema import messages

    channels, height, width = mean.shape
    blob = messages.WeightBlob(num=1, channels=channels, height=height, width=width)
    blob.data.append(np.ascontiguousarray(mean, "<f4").tobytes())
    return bytes(blob.SerializeToString(deterministic=True))


def fill_blob(blob: Any, array: NDArray[np.float32]) -> None:
    """Write an array into a WeightBlob."""
    blob.shape.dim.extend(array.shape)
    blob.data.append(np.ascontiguousarray(array, "<f4").tobytes())


def read_user_bytes(path: Path, what: str) -> bytes:
    """A file's bytes, refused where it is empty or a Git LFS pointer.

    Raises:
        UserFileError: no such file, or not readable.
        ModelError: not a regular file, too large, empty, or a pointer.
    """

    data = read_regular_file(path, what=what)
    if not data:
        raise ModelError(f"{what} is empty", where=str(path), remedy=_COPY_AGAIN)
    if data.startswith(_LFS_POINTER):
        raise ModelError(f"{what} is a Git LFS pointer", where=str(path), remedy="run `git lfs pull`")
    return data


def _parsed(message: Any, data: bytes, where: str, kind: str) -> Any:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        message.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        reason = f"the file is not {kind}, or it is truncated or damaged"
        head = data[:256]
        if all(32 <= byte < 127 or byte in b"\t\n\r" for byte in head):
            reason = f"the file is text, not {kind}"
        raise ModelError(reason, where=where, remedy=_COPY_AGAIN) from error
    return message


def _text(message: Any, field: str, where: str) -> str:
    try:
        value = getattr(message, field)
        text = value.decode() if isinstance(value, bytes) else str(value)
        text.encode()
    except UnicodeError as error:
        raise ModelError(f"a layer's {field} is not UTF-8", where=where, remedy=_COPY_AGAIN) from error
    return text


def _array(blob: Any, where: str, what: str) -> NDArray[np.float32]:
    if blob.HasField("shape"):
        shape = tuple(int(dim) for dim in blob.shape.dim[: MAX_DIMENSIONS + 1])
    elif any(blob.HasField(name) for name in ("num", "channels", "height", "width")):
        shape = (blob.num, blob.channels, blob.height, blob.width)
    else:
        shape = None
    if shape is not None and (len(shape) > MAX_DIMENSIONS or min(shape, default=0) < 0):
        shown = list(shape[:8])
        raise ModelError(f"{what} has a senseless shape: {shown}", where=where, remedy=_COPY_AGAIN)
    values = _values(blob, where, what)
    if shape is None:
        shape = (values.size,)
    declared = math.prod(shape)
    if declared != values.size:
        raise ModelError(
            f"{what} declares {declared:,} numbers ({list(shape)}) and holds {values.size:,}",
            where=where,
            remedy=_COPY_AGAIN,
        )
    if not np.isfinite(values).all():
        raise ModelError(
            f"{what} holds numbers that are not finite", where=where, remedy="the training diverged, or it is damaged"
        )
    return values.reshape(shape)


def _values(blob: Any, where: str, what: str) -> NDArray[np.float32]:
    """The numbers, float32; of unpacked fields, which old writers may have left, too."""
    if blob.data:
        return _numbers(blob.data, "<f4", where, what)
    if blob.double_data:
        return _numbers(blob.double_data, "<f8", where, what)
    if blob.HasField("raw_data"):
        kinds = {_DOUBLE: "<f8", _FLOAT: "<f4", _HALF: "<f2"}
        if blob.raw_data_type not in kinds:
            raise ModelError(f"{what} has a number type that is unknown", where=where, remedy="store it as float")
        return _numbers([blob.raw_data], kinds[blob.raw_data_type], where, what)
    from nnkit.caffe.schema import messages

    plain = messages.BlobProto.FromString(blob.SerializeToString())
    return np.asarray(plain.data or plain.double_data, dtype=np.float32)


def _numbers(chunks: Sequence[bytes], kind: str, where: str, what: str) -> NDArray[np.float32]:
    data = b"".join(chunks)
    if len(data) % np.dtype(kind).itemsize:
        raise ModelError(f"{what} ends within a number", where=where, remedy=_COPY_AGAIN)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is reported as not finite
        return np.frombuffer(data, kind).astype(np.float32)
