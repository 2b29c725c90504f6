"""Large weights set aside while tools work on a network's structure.

Conversion, shape inference and the checker copy and parse the whole model again and again, and read no number of a
large float tensor. So they see such tensors without their data, and the weights return when the structure is done.
Between processes they pass as one file of bytes, one tensor after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray

Weights: TypeAlias = Mapping[str, bytes | memoryview]
"""Data of initializers by their names, as in `raw_data`."""

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
