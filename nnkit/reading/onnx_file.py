"""Protobuf messages of ONNX."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.errors import ModelError, UserFileError
from nnkit.reading.regular_file import read_bytes

if TYPE_CHECKING:
    import onnx


def message_of(data: bytes) -> onnx.ModelProto:
    """The model that `data` holds, every text in it valid UTF-8. Raises ValueError where it is none."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
        _check_texts(proto)
    except (DecodeError, UnicodeError) as error:
        raise ValueError("damaged, cut off, or no ONNX model") from error
    if not proto.HasField("graph") or not proto.ir_version:
        raise ValueError("damaged, cut off, or no ONNX model")
    return proto


def whole_message_of(data: bytes) -> onnx.ModelProto:
    """As `message_of`, of a model that comes in one piece. Raises ValueError, too, where a tensor's numbers lie in
    another file: ONNX Runtime and onnx would look for that from the folder that the command runs in."""
    import onnx

    proto = message_of(data)
    for message in walk(proto):
        if message.DESCRIPTOR.name == "TensorProto" and message.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError(f"no model in one piece: tensor '{message.name}' keeps its numbers in another file")
    return proto


def refuse_other_files(data: bytes) -> None:
    """For an operator of a program, which is a model of its own, and may be of a build that somebody sent.

    Raises ModelError where `whole_message_of` raises ValueError.
    """
    try:
        whole_message_of(data)
    except ValueError as error:
        raise ModelError(
            f"an operator of the program is {error}", remedy="build it again with `nnkit run`"
        ) from error


def read_onnx(path: Path, *, what: str, remedy: str) -> onnx.ModelProto:
    """The model in a file that is not the network of a recipe (that is `nnkit.importers`'), all in one piece.

    what: the file in messages, e.g. `the model`. remedy: of a file that is no model.

    Raises:
        UserFileError: it cannot be read, is no ONNX model, or names other files.
    """
    data = read_bytes(path, what=what)
    try:
        return whole_message_of(data)
    except ValueError as error:
        raise UserFileError(f"{what} cannot be read: it is {error}", where=str(path), remedy=remedy) from error


def walk(message: Any) -> Iterator[Any]:
    """`message` and every message inside it, outer ones first."""
    pending = [message]
    while pending:
        current = pending.pop()
        yield current
        for field, value in current.ListFields():
            if field.type == field.TYPE_MESSAGE:
                pending.extend([value] if hasattr(value, "ListFields") else reversed(value))


def _check_texts(proto: Any) -> None:
    """Raise UnicodeError where a string field is not UTF-8: protobuf hands such a field out as bytes."""
    for message in walk(proto):
        for field, value in message.ListFields():
            if field.type != field.TYPE_STRING:
                continue
            for text in [value] if isinstance(value, str | bytes) else value:
                if isinstance(text, bytes):
                    text.decode()
                else:
                    text.encode()
