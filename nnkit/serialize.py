"""Values between stages as bytes and back: exact, deterministic, and without pickle, so that reading is safe.

Layout: `MAGIC`, the header's length (8 bytes, little endian), the header, then the arrays' bytes one after the other.
The header is JSON: the structure of the value, and the type and shape of every array. Plain JSON values stand for
themselves (floats in Python's shortest exact form); all else is a one-entry object:

    {"tuple": [...]}  {"list": [...]}  {"map": [[key, value], ...]}  {"set": [...]}  {"float": "nan"}
    {"bytes": n}  {"array": n}  {"scalar": n}                     # n: index into the arrays
    {"object": [class, {field: value, ...}]}                      # dataclasses of an explicit list only
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError

MAGIC = b"nnkit-values-1\n"
_LENGTH_BYTES = 8
_KINDS = "biufc"  # bool, integers, floats, complex: never objects


class DamagedValueError(ValueError):
    """Bytes that `decode` cannot read: damaged, or written by other versions of the classes."""


class Codec:
    """Encodes values made of plain Python data, numpy arrays and the dataclasses in `classes`.

    Raises:
        InternalError: two classes share a name, or one is no dataclass.
    """

    def __init__(self, classes: Iterable[type]) -> None:
        self._classes: dict[str, type] = {}
        for cls in classes:
            if not is_dataclass(cls) or self._classes.setdefault(cls.__name__, cls) is not cls:
                raise InternalError(f"class {cls.__name__} cannot be registered: no dataclass, or its name is taken")

    def encode(self, value: Any) -> bytes:
        """`value` as bytes; equal values give equal bytes.

        Raises:
            InternalError: something in `value` is of a class that is not registered.
        """
        return b"".join(self.parts(value))

    def parts(self, value: Any) -> tuple[bytes | memoryview, ...]:
        """What `encode` joins; the numbers of arrays are where they were."""
        arrays: list[NDArray[Any]] = []
        structure = self._plain(value, arrays)
        table = [[array.dtype.str, list(array.shape)] for array in arrays]
        header = json.dumps({"arrays": table, "value": structure}, separators=(",", ":"), allow_nan=False).encode()
        bodies = (np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays)
        return (MAGIC, len(header).to_bytes(_LENGTH_BYTES, "little"), header, *bodies)

    def decode(self, data: bytes) -> Any:
        """The value; its arrays are read-only.

        Raises:
            DamagedValueError: the bytes are not what `encode` writes for the classes as they are now.
        """
        try:
            return self._decode(data)
        except DamagedValueError:
            raise
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
            raise DamagedValueError(f"stored value is damaged: {error}") from error

    def _plain(self, value: Any, arrays: list[NDArray[Any]]) -> Any:
        if isinstance(value, str):
            return str(value)  # also of text that was made visible
        if value is None or isinstance(value, bool) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray | np.generic):
            return {"array" if isinstance(value, np.ndarray) else "scalar": _add(np.asarray(value), arrays)}
        if isinstance(value, bytes):
            return {"bytes": _add(np.frombuffer(value, dtype=np.uint8), arrays)}
        if type(value) in (tuple, list):
            return {type(value).__name__: [self._plain(item, arrays) for item in value]}
        if isinstance(value, frozenset | set):
            inside: list[NDArray[Any]] = []
            items = sorted((self._plain(item, inside) for item in value), key=json.dumps)
            if inside:
                raise InternalError("a set with arrays cannot be stored: it has no order")
            return {"set": items}
        if isinstance(value, Mapping):
            return {"map": [[self._plain(k, arrays), self._plain(v, arrays)] for k, v in value.items()]}
        name = type(value).__name__
        if self._classes.get(name) is not type(value):
            raise InternalError(f"a value of class {type(value).__module__}.{name} cannot be stored")
        known = fields(self._classes[name])
        return {"object": [name, {field.name: self._plain(getattr(value, field.name), arrays) for field in known}]}

    def _decode(self, data: bytes) -> Any:
        start = len(MAGIC) + _LENGTH_BYTES
        if not data.startswith(MAGIC) or len(data) < start:
            raise DamagedValueError("these bytes are not a stored value")
        end = start + int.from_bytes(data[len(MAGIC) : start], "little")
        if end > len(data):
            raise DamagedValueError("the stored value is cut off")
        header = json.loads(data[start:end])
        arrays = _arrays(header["arrays"], memoryview(data)[end:])
        return self._value(header["value"], arrays)

    def _value(self, plain: Any, arrays: list[NDArray[Any]]) -> Any:
        if not isinstance(plain, dict):
            if isinstance(plain, list):
                raise DamagedValueError("the stored value is damaged: a bare list")
            return plain
        ((kind, content),) = plain.items()
        if kind in ("array", "scalar", "bytes"):
            array = arrays[content]
            return array if kind == "array" else array[()] if kind == "scalar" else array.tobytes()
        if kind == "float":
            return float(content)
        if kind == "map":
            return {self._value(key, arrays): self._value(item, arrays) for key, item in content}
        if kind in ("tuple", "list", "set"):
            items = [self._value(item, arrays) for item in content]
            return items if kind == "list" else tuple(items) if kind == "tuple" else frozenset(items)
        if kind != "object":
            raise DamagedValueError(f"the stored value is damaged: unknown kind {kind!r}")
        return self._object(content[0], content[1], arrays)

    def _object(self, name: str, content: dict[str, Any], arrays: list[NDArray[Any]]) -> Any:
        cls = self._classes.get(name)
        if cls is None:
            raise DamagedValueError(f"the stored value has an unknown class {name!r}")
        known = {field.name: field for field in fields(cls)}
        if set(content) != set(known):
            raise DamagedValueError(f"the stored {name} has other fields than the class")
        values = {key: self._value(item, arrays) for key, item in content.items()}
        made = cls(**{key: item for key, item in values.items() if known[key].init})
        for key, item in values.items():
            if not known[key].init:
                object.__setattr__(made, key, item)
        return made


def stage_codec(more: Iterable[type] = ()) -> Codec:
    """The codec for what stages hand on; `more`: classes of stages' results, or of a target's own programs."""
    from nnkit import program
    from nnkit.calibrate.stats import CalibrationStats, ValueRange
    from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec, ValueTags
    from nnkit.memory.plan import Buffer, MemoryPlan, Region, RegionUse, Step, TensorPlace, WeightChunk
    from nnkit.program import affine, fixed
    from nnkit.rewrite.log import DeclinedSite, RewriteEntry, RewriteLog

    arithmetic = [
        cls
        for package in (program, fixed, affine)
        for cls in vars(package).values()
        if isinstance(cls, type) and is_dataclass(cls)
    ]
    return Codec(
        [
            *arithmetic,
            *(Model, InputSpec, OutputSpec, LayerTags, ValueTags),
            *(CalibrationStats, ValueRange),
            *(MemoryPlan, Region, RegionUse, Buffer, TensorPlace, WeightChunk, Step),
            *(RewriteLog, RewriteEntry, DeclinedSite),
            *more,
        ]
    )


def encode(value: Any, more: Iterable[type] = ()) -> bytes:
    """`value`, of what stages hand on, as bytes; see `Codec.encode`."""
    return stage_codec(more).encode(value)


def encoded_parts(value: Any, more: Iterable[type] = ()) -> tuple[bytes | memoryview, ...]:
    """What `encode` joins; see `Codec.parts`."""
    return stage_codec(more).parts(value)


def decode(data: bytes, more: Iterable[type] = ()) -> Any:
    """What `encode` wrote with the same classes; see `Codec.decode`."""
    return stage_codec(more).decode(data)


def _add(array: NDArray[Any], arrays: list[NDArray[Any]]) -> int:
    if array.dtype.kind not in _KINDS:
        raise InternalError(f"an array of type {array.dtype} cannot be stored")
    arrays.append(array)
    return len(arrays) - 1


def _arrays(table: list[Any], body: memoryview) -> list[NDArray[Any]]:
    arrays = []
    offset = 0
    for name, shape in table:
        dtype = np.dtype(str(name))
        if dtype.kind not in _KINDS or any(not isinstance(side, int) or side < 0 for side in shape):
            raise DamagedValueError("the stored value is damaged: an array's type or shape")
        size = math.prod(shape) * dtype.itemsize
        if offset + size > len(body):
            raise DamagedValueError("the stored value is cut off")
        array = np.empty(shape, dtype=dtype)  # a copy, so that it is aligned and does not keep the whole body
        if size:
            array[...] = np.frombuffer(body[offset : offset + size], dtype=dtype).reshape(shape)
        array.setflags(write=False)
        arrays.append(array)
        offset += size
    if offset != len(body):
        raise DamagedValueError("the stored value is damaged: bytes are left over")
    return arrays
