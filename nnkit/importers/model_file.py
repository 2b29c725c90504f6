"""Reading an ONNX file that may be anything: size and kind first, then protobuf, then every text and tensor."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.errors import ModelError, UserFileError

if TYPE_CHECKING:
    import onnx

MAX_MODEL_BYTES = 2**31
"""Limit of a protobuf message, and far beyond what any of the targets holds; external data counts in."""

_LFS_POINTER = b"version https://git-lfs"
_EXPORT_AGAIN = "export the network to ONNX again, or copy the file again"


def read_model_file(path: Path) -> onnx.ModelProto:
    """The message in `path`, every text in it valid UTF-8. External data is not read.

    Raises:
        UserFileError: there is no such file, or it cannot be read.
        ModelError: it is no ONNX model: a folder, a device, empty, over `MAX_MODEL_BYTES`, text, truncated.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    data = _read_bytes(path)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
        _check_texts(proto)
    except (DecodeError, UnicodeDecodeError) as error:
        raise _not_onnx(path, data) from error
    if not proto.HasField("graph") or not proto.ir_version:
        raise _not_onnx(path, data)
    return proto


def read_regular_file(path: Path, *, what: str, limit_bytes: int = MAX_MODEL_BYTES) -> bytes:
    """The bytes of a regular file, never of a pipe or a device, which could block or have no end.

    Raises:
        UserFileError: no such file, or not readable.
        ModelError: not a regular file, or larger than `limit_bytes`.
    """
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise ModelError(f"{what} is a folder", where=str(path), remedy="name the file inside it")
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{what} is not a regular file", where=str(path), remedy="name an ordinary file")
        if status.st_size >= limit_bytes:
            raise ModelError(
                f"{what} has {status.st_size:,} bytes; the limit is {limit_bytes:,}",
                where=str(path),
                remedy="a network for these targets is far smaller: check which file this is",
            )
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UserFileError(f"{what} does not exist", where=str(path), remedy="check the path") from error
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL character
        reason = getattr(error, "strerror", None) or str(error)
        raise UserFileError(f"{what} cannot be read: {reason}", where=str(path), remedy="check the path") from error


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


def _check_texts(proto: Any) -> None:
    """Raise UnicodeDecodeError where a string field is not UTF-8: protobuf hands such a field out as bytes."""
    for message in walk(proto):
        for field, value in message.ListFields():
            if field.type != field.TYPE_STRING:
                continue
            for text in [value] if isinstance(value, str | bytes) else value:
                if isinstance(text, bytes):
                    text.decode()
                else:
                    text.encode()


def walk(message: Any) -> Iterator[Any]:
    """`message` and every message inside it, outer ones first."""
    pending = [message]
    while pending:
        current = pending.pop()
        yield current
        for field, value in current.ListFields():
            if field.type == field.TYPE_MESSAGE:
                pending.extend([value] if hasattr(value, "ListFields") else reversed(value))
