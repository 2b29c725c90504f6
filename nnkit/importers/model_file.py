"""Reading an ONNX file that may be anything: size and kind first, then protobuf, then every text and tensor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.errors import ModelError
from nnkit.reading import message_of, read_regular_file

if TYPE_CHECKING:
    import onnx

_LFS_POINTER = b"version https://git-lfs"
_EXPORT_AGAIN = "export the network to ONNX again, or copy the file again"


def read_model_file(path: Path) -> onnx.ModelProto:
    """The message in `path`, every text in it valid UTF-8. External data is not read.

    Raises:
        UserFileError: there is no such file, or it cannot be read.
        ModelError: it is no ONNX model: a folder, a device, empty, over `MAX_MODEL_BYTES`, text, truncated.
    """
    data = _read_bytes(path)
    try:
        return message_of(data)
    except ValueError as error:
        raise _not_onnx(path, data) from error


def _read_bytes(path: Path) -> bytes:
    data = read_regular_file(path, what="the model file")
    if not data:
        raise ModelError("the model file is empty", where=str(path), remedy=_EXPORT_AGAIN)
    return data


def _not_onnx(path: Path, data: bytes) -> ModelError:
    if data.startswith(_LFS_POINTER):
        return ModelError(
            "the model file is a Git LFS pointer, not the model", where=str(path), remedy="run `git lfs pull`"
        )
    head = data[:512]
    if all(32 <= byte < 127 or byte in b"\t\n\r" for byte in head):
        return ModelError("the model file is text, not an ONNX model", where=str(path), remedy="name the .onnx file")
    return ModelError(
        "the model file is not an ONNX model, or it is truncated or damaged", where=str(path), remedy=_EXPORT_AGAIN
    )
