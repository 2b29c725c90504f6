"""Large weights set aside while tools work on a network's structure.

Conversion, shape inference and the checker copy and parse the whole model again and again, and read no number of a
large float tensor. So they see such tensors without their data, and the weights return when the structure is done.
Between processes they pass as one file of bytes, one tensor after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray

Weights: TypeAlias = Mapping[str, bytes | memoryview]
"""Data of initializers by their names, as in `raw_data`."""

_GRAPH, _INITIALIZER, _NAME, _RAW_DATA = 7, 5, 8, 9
"""Numbers of fields: of a model, of a graph, and two of a tensor (onnx.proto)."""
_LEAST_BYTES = 4096  # smaller ones stay: tools read constants as scales, bounds and paddings


def take_weights(graph: onnx.GraphProto) -> dict[str, bytes]:
    """Remove the data of the graph's large float initializers, in place; it is returned by their names."""
    taken: dict[str, bytes] = {}
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.raw_data) >= _LEAST_BYTES:
            taken[tensor.name] = tensor.raw_data
            tensor.raw_data = b""
    return taken


def put_weights(graph: onnx.GraphProto, weights: Weights) -> None:
    """Give the initializers that `take_weights` emptied their data again, in place; others stay as they are."""
    for tensor in graph.initializer:
        if tensor.name in weights and not tensor.raw_data:
            tensor.raw_data = bytes(weights[tensor.name])


def bytes_with_weights(proto: onnx.ModelProto, weights: Weights) -> bytes:
    """The model as a file, deterministic, with the data that `take_weights` took; `proto` stays without.

    What `put_weights` and `SerializeToString` would give, but no number is held more than once beside the result:
    protobuf's own buffer doubles as it grows. Written after the encoding of protobuf messages, whose fields stand in
    ascending order: https://protobuf.dev/programming-guides/encoding/
    """
    parts: list[bytes | memoryview] = []
    whole = memoryview(proto.SerializeToString(deterministic=True))
    for number, start, body, end in _fields(whole):
        if number != _GRAPH:
            parts.append(whole[start:end])
            continue
        inner: list[bytes | memoryview] = []
        graph = whole[body:end]
        for within, first, content, last in _fields(graph):
            if within == _INITIALIZER:
                inner += _tensor(graph[content:last], graph[first:last], weights)
            else:
                inner.append(graph[first:last])
        parts += [_key(_GRAPH, inner), *inner]
    return b"".join(parts)


def _tensor(tensor: memoryview, field: memoryview, weights: Weights) -> list[bytes | memoryview]:
    """The field of an initializer, with its data where they were taken. tensor: its message; field: as it is."""
    fields = list(_fields(tensor))
    names = [bytes(tensor[body:end]).decode() for number, _, body, end in fields if number == _NAME]
    data = weights.get(names[-1]) if names else None
    if data is None:
        return [field]
    inner: list[bytes | memoryview] = []
    taken = False
    for number, start, body, end in fields:
        if number == _RAW_DATA and body == end:
            inner += [_key(_RAW_DATA, [data]), data]
            taken = True
        else:
            inner.append(tensor[start:end])
    return [_key(_INITIALIZER, inner), *inner] if taken else [field]


def _fields(message: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Each field's number, where it begins, where its content begins, and where it ends."""
    at = 0
    while at < len(message):
        start = at
        key, at = _number(message, at)
        kind = key & 7
        if kind == 0:
            body = at
            _, at = _number(message, at)
        else:
            size = {1: 8, 5: 4}.get(kind, 0)
            if kind == 2:
                size, at = _number(message, at)
            body = at
            at += size
        yield key >> 3, start, body, at


def _number(message: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _key(field: int, parts: Iterable[bytes | memoryview]) -> bytes:
    """What stands before a field's content: its number, and how long the content is."""
    key = bytearray([field << 3 | 2])
    size = sum(map(len, parts))
    while size > 127:
        key.append(size & 127 | 128)
        size >>= 7
    return bytes([*key, size])


def with_weights_as_inputs(proto: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    """A copy with the initializers `names` as inputs of the graph, for tools that refuse tensors without data."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    kept = [tensor for tensor in copy.graph.initializer if tensor.name not in names]
    declared = {value.name for value in copy.graph.input}
    for tensor in proto.graph.initializer:
        if tensor.name in names and tensor.name not in declared:
            copy.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(kept)
    return copy


def weight_arrays(graph: onnx.GraphProto, weights: Weights) -> dict[str, NDArray[np.float32]]:
    """What the inputs of `with_weights_as_inputs` are fed."""
    little_endian = np.dtype("<f4")
    return {
        tensor.name: np.frombuffer(weights[tensor.name], little_endian).reshape(tuple(tensor.dims))
        for tensor in graph.initializer
        if tensor.name in weights
    }


def write_weights(path: Path, weights: Weights) -> dict[str, int]:
    """Write them one after the other; returns how many bytes each has, in this order."""
    with path.open("wb") as stream:
        for data in weights.values():
            stream.write(data)
    return {name: len(data) for name, data in weights.items()}


def read_weights(path: Path, sizes: Mapping[str, int]) -> Weights:
    """What `write_weights` wrote. Raises ValueError where the file is shorter."""
    data = memoryview(path.read_bytes()).toreadonly()
    if len(data) != sum(sizes.values()):
        raise ValueError(f"{path.name} has {len(data)} bytes, not {sum(sizes.values())}")
    weights, start = {}, 0
    for name, size in sizes.items():
        weights[name] = data[start : start + size]
        start += size
    return weights
