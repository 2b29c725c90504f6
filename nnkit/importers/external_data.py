"""External tensor data: read into the model, and only ever from files inside the model's own folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from nnkit.errors import ModelError, UserFileError
from nnkit.importers.tensors import all_tensors, declared_bytes
from nnkit.reading import MAX_MODEL_BYTES, read_regular_file

if TYPE_CHECKING:
    import onnx


class MissingDataError(UserFileError):
    """Data files that are not there. model: the file that names them; locations: as it names them."""

    code = "NK224"

    def __init__(self, model: Path, locations: Sequence[str]) -> None:
        self.model, self.locations = model, tuple(locations)
        files = " and ".join(self.locations)
        which = "which is" if len(self.locations) == 1 else "which are"
        super().__init__(
            f"{model.name} keeps its weights in {files}, {which} not there",
            where=str(model),
            remedy=f"put {files} beside it, as the export left them",
        )


def load_external_data(proto: onnx.ModelProto, path: Path) -> tuple[Path, ...]:
    """Move all external data of the model at `path` into `proto`; the data files, each once, in order of use.

    Each tensor takes `length` bytes (its declared size, where no length is given) from `offset` of the file
    `location`, as the ONNX format's `external_data` entries define; a `checksum` (SHA-1 of the file) is verified.

    Raises:
        ModelError: a location outside the model's folder (absolute, `..`, through a link), offsets or lengths that
            do not fit the file or the tensor, a wrong checksum, more than `MAX_MODEL_BYTES` in all.
        UserFileError: a data file cannot be read; MissingDataError: is missing.
    """
    import onnx

    external_files(proto, path)
    contents: dict[Path, bytes] = {}
    for tensor in _external(proto):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        file = _file_inside(path, _location(tensor), tensor.name)
        if file not in contents:
            contents[file] = _read(file, tensor.name, MAX_MODEL_BYTES - sum(map(len, contents.values())))
            _check_sha1(contents[file], entries.get("checksum"), file)
        tensor.raw_data = _part(contents[file], entries, declared_bytes(tensor, str(path)), tensor.name, file)
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.DEFAULT
    return tuple(contents)


def external_files(proto: onnx.ModelProto, path: Path) -> tuple[Path, ...]:
    """The data files of the model at `path`, each once, in order of use; raises as `load_external_data` does."""
    files = {_file_inside(path, _location(tensor), tensor.name): _location(tensor) for tensor in _external(proto)}
    missing = [location for file, location in files.items() if not os.path.exists(file)]
    if missing:
        raise MissingDataError(path, missing)
    return tuple(files)


def _external(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    import onnx

    return (tensor for tensor in all_tensors(proto) if tensor.data_location == onnx.TensorProto.EXTERNAL)


def _location(tensor: onnx.TensorProto) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def _file_inside(model: Path, location: str, tensor: str) -> Path:
    """The data file, proven to lie in the model's folder with all links followed."""
    posix, windows = PurePosixPath(location), PureWindowsPath(location)
    outside = posix.is_absolute() or windows.drive or windows.root or ".." in windows.parts or "\0" in location
    folder = model.parent.resolve()
    if not location or outside:
        problem = "no data file" if not location else f"data outside the model's folder: '{location}'"
        raise ModelError(
            f"tensor '{tensor}' names {problem}",
            where=str(model),
            remedy="save the model and its data side by side in one folder",
        )
    try:
        file = (folder / location).resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise UserFileError(
            f"the data file '{location}' cannot be read: {error}",
            where=str(model),
            remedy="put the data file itself in the link's place",
        ) from error
    if not file.is_relative_to(folder):
        raise ModelError(
            f"the data file '{location}' of tensor '{tensor}' is a link that leaves the model's folder",
            where=str(model),
            remedy="copy the data file beside the model",
        )
    return file


def _read(file: Path, tensor: str, limit_bytes: int) -> bytes:
    return read_regular_file(file, what=f"the data file of tensor '{tensor}'", limit_bytes=limit_bytes)


def _check_sha1(data: bytes, checksum: str | None, file: Path) -> None:
    if checksum and hashlib.sha1(data, usedforsecurity=False).hexdigest() != checksum.lower():
        raise ModelError(
            "the data file does not have the checksum that the model gives for it",
            where=str(file),
            remedy="copy the data file again",
        )


def _part(data: bytes, entries: dict[str, str], declared: int, tensor: str, file: Path) -> bytes:
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries.get("length") or declared)
    except ValueError:
        offset = length = -1
    if offset < 0 or length != declared or offset + length > len(data):
        raise ModelError(
            f"tensor '{tensor}' of {declared:,} bytes claims offset {entries.get('offset') or 0}, length "
            f"{entries.get('length') or declared} of a file of {len(data):,} bytes",
            where=str(file),
            remedy="model and data file do not belong together: copy or export both again",
        )
    return data[offset : offset + length]
