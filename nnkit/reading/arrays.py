"""Arrays of numpy: `.npy`, and `.npz`, which is a zip file of them.

The header is believed only as far as the file bears it out: type and shape must give exactly the bytes that follow.
"""

from __future__ import annotations

import io
import os
import stat
import warnings
import zipfile
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from nnkit.errors import NnkitError, UserFileError

NUMBERS = "fiub"
"""Kinds of types that hold real numbers: floats, integers, truth values."""

MAX_ARRAY_BYTES = 1 << 34
MAX_EXPANSION = 32
"""How many times as large as its file a compressed archive may be in memory."""
MIN_EXPANDED_BYTES = 1 << 25
"""An archive may take this much, however small its file is."""
_LAST_CHARACTER = 0x10FFFF  # of Unicode
_MAX_AXES = 32
_MAX_MEMBERS = 4096
_ENCRYPTED = 1
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

HeaderCheck = Callable[[tuple[int, ...], np.dtype[Any]], None]
"""What a caller demands of shape and type, before any value is read; it raises what the caller wants raised."""


class _DamagedError(Exception):
    """Why an array cannot be read."""


def read_array(
    path: Path, *, what: str, remedy: str, kinds: str = NUMBERS, check: HeaderCheck | None = None
) -> NDArray[Any]:
    """The array of an `.npy` file.

    what: the file in messages, e.g. `the input`. remedy: of a file that holds no such array.
    kinds: the kinds of types that are taken, as `numpy.dtype.kind` has them; never objects.

    Raises:
        UserFileError: it cannot be read, is damaged, empty, or of another kind of type. Whatever `check` raises.
    """
    with _Opened(path, what, remedy) as file:
        return _array(file.stream, file.size_bytes, kinds, check)


def read_array_header(path: Path, check: HeaderCheck) -> None:
    """Hold the shape and type of an `.npy` file to `check`, without reading its values. Raises as `read_array`."""
    with _Opened(path, "the array", "save it with numpy.save") as file:
        shape, _, dtype = _header(file.stream)
        check(shape, dtype)


def read_arrays(path: Path, *, what: str, remedy: str, kinds: str = NUMBERS) -> dict[str, NDArray[Any]]:
    """The arrays of an `.npz` file by name, or the one of an `.npy` file by the name of the file.

    Arguments, raises: as `read_array`; UserFileError too for an archive that takes more than `MAX_EXPANSION` times
    the file's size.
    """
    with _Opened(path, what, remedy) as file:
        if file.stream.read(4) == b"PK\x03\x04":
            return _members(file.stream, max(MIN_EXPANDED_BYTES, MAX_EXPANSION * file.size_bytes), kinds)
        file.stream.seek(0)
        return {path.stem: _array(file.stream, file.size_bytes, kinds, None)}


class _Opened:
    """A regular file of bounded size, open for reading; errors inside become UserFileError."""

    stream: BinaryIO
    size_bytes: int

    def __init__(self, path: Path, what: str, remedy: str) -> None:
        self._path, self._what, self._remedy = path, what, remedy

    def __enter__(self) -> _Opened:
        try:
            status = os.stat(self._path)
            if not stat.S_ISREG(status.st_mode):
                raise _DamagedError("it is a folder" if stat.S_ISDIR(status.st_mode) else "it is not a regular file")
            if status.st_size > MAX_ARRAY_BYTES:
                raise _DamagedError(f"it has {status.st_size:,} bytes; the limit is {MAX_ARRAY_BYTES:,}")
            if not status.st_size:
                raise _DamagedError("it is empty")
            self.stream, self.size_bytes = self._path.open("rb"), status.st_size
        except (OSError, ValueError, _DamagedError) as error:
            raise self._refused(error) from error
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.stream.close()
        if isinstance(error, OSError | _DamagedError):
            raise self._refused(error) from error

    def _refused(self, error: BaseException) -> UserFileError:
        if isinstance(error, FileNotFoundError):
            return UserFileError(f"{self._what} does not exist", where=str(self._path), remedy="check the path")
        reason = getattr(error, "strerror", None) or str(error)
        return UserFileError(f"{self._what} cannot be read: {reason}", where=str(self._path), remedy=self._remedy)


def _array(stream: BinaryIO, size_bytes: int, kinds: str, check: HeaderCheck | None) -> NDArray[Any]:
    shape, by_columns, dtype = _header(stream)
    if check is not None:
        check(shape, dtype)
    if dtype.kind not in kinds:
        raise _DamagedError(f"it holds values of type {dtype}".rstrip() + ", not numbers" * (kinds == NUMBERS))
    if len(shape) > _MAX_AXES or any(side < 0 for side in shape):
        raise _DamagedError("no array has such a shape")
    expected_bytes = prod(shape) * dtype.itemsize
    if not expected_bytes:
        raise _DamagedError(f"it holds no values: its shape is {list(shape)}")
    there_bytes = size_bytes - stream.tell()
    if expected_bytes != there_bytes:
        raise _DamagedError(f"its header promises {expected_bytes:,} bytes of values, and it has {there_bytes:,}")
    values = np.frombuffer(bytearray(expected_bytes), np.uint8)
    if stream.readinto(values.data) != expected_bytes:  # type: ignore[attr-defined]
        raise _DamagedError("it is cut off")
    if dtype.kind == "U" and int(values.view(f"{dtype.byteorder}u4").max()) > _LAST_CHARACTER:
        raise _DamagedError("it holds texts with a character that does not exist")  # numpy would not look
    return values.view(dtype).reshape(shape, order="F" if by_columns else "C")


def _header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the literal's syntax, and of headers that Python 2 wrote
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(npy.read_magic(stream))
            if read is None:
                raise _DamagedError("its header has another version than 1.0 or 2.0")
            shape, by_columns, dtype = read(stream)
    except (NnkitError, OSError, _DamagedError):
        raise
    except Exception as error:  # the header is a Python literal: its parser knows a dozen exceptions
        raise _DamagedError("its header is not that of an .npy file") from error
    if any(isinstance(side, bool) for side in shape):
        raise _DamagedError("no array has such a shape")
    return shape, bool(by_columns), dtype


def _members(stream: BinaryIO, limit_bytes: int, kinds: str) -> dict[str, NDArray[Any]]:
    """All arrays of a zip file that take at most `limit_bytes` together."""
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS:
                raise _DamagedError(f"it has {len(members):,} arrays; the limit is {_MAX_MEMBERS:,}")
            for member in members:
                if member.flag_bits & _ENCRYPTED:
                    raise _DamagedError("it is encrypted")
                limit_bytes -= member.file_size
                if limit_bytes < 0:
                    raise _DamagedError(
                        f"it would take more than {MAX_EXPANSION} times its size; save it with numpy.savez, which "
                        "does not compress"
                    )
                if member.compress_type not in _COMPRESSIONS:
                    raise _DamagedError("it is compressed in a way that numpy does not write")
                name = member.filename.removesuffix(".npy")
                try:
                    content = archive.read(member)
                    arrays[name] = _array(io.BytesIO(content), len(content), kinds, None)
                except _DamagedError as error:
                    raise _DamagedError(f"its array {name!r}: {error}") from error
    except (_DamagedError, OSError):
        raise
    except Exception as error:  # BadZipFile, zlib.error, LZMAError, EOFError, NotImplementedError, struct.error, ...
        raise _DamagedError("it is a damaged zip file") from error
    if not arrays:
        raise _DamagedError("it holds no arrays")
    return arrays
