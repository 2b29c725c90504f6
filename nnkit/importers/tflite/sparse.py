"""Constants that a TFLite file stores without their zeros, written out.

A tensor, whose dimensions may be cut into blocks, is a tree: a level for each dimension in the order of traversal. A
dense level has a child for each index, a sparse one for those that its segments list (compressed sparse rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.reading import MAX_MODEL_BYTES

_SPARSE = 1


def written_out(sparsity: Any, stored: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    """The dense tensor. sparsity: the schema's table, read by the package `tflite`; stored: its values in order.

    Raises ValueError where they contradict each other.
    """
    order = [int(each) for each in np.atleast_1d(sparsity.TraversalOrderAsNumpy())]
    blocks = [int(each) for each in np.atleast_1d(sparsity.BlockMapAsNumpy())] if sparsity.BlockMapLength() else []
    rank, size = len(shape), prod(shape)
    if sorted(order) != list(range(rank + len(blocks))) or sparsity.DimMetadataLength() != len(order):
        raise ValueError("another number of levels than of dimensions and blocks")
    if size * stored.dtype.itemsize > MAX_MODEL_BYTES or any(not 0 <= each < rank for each in blocks):
        raise ValueError("a shape that cannot be")
    place = np.zeros(1, np.int64)  # of each node of a level among the nodes of the levels before
    indices = np.zeros((1, len(order)), np.int64)
    block_sizes = dict[int, int]()
    for level, dimension in enumerate(order):
        metadata = sparsity.DimMetadata(level)
        if metadata.Format() == _SPARSE:
            segments = _vector(metadata.ArraySegments(), metadata.ArraySegmentsType())
            listed = _vector(metadata.ArrayIndices(), metadata.ArrayIndicesType())
            counts = segments[place + 1] - segments[place]
            if (counts < 0).any() or counts.sum() > size:
                raise ValueError("segments that cannot be")
            parents = np.repeat(np.arange(len(place)), counts)
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            place = segments[place][parents] + within
            of_level = listed[place]
        else:
            count = int(metadata.DenseSize())
            if count < 1 or count * len(place) > size:
                raise ValueError("more values than its shape has")
            if dimension >= rank:
                block_sizes[dimension - rank] = count
            parents = np.repeat(np.arange(len(place)), count)
            of_level = np.tile(np.arange(count), len(place))
            place = place[parents] * count + of_level
        indices = indices[parents]
        indices[:, level] = of_level
    if len(indices) != stored.size:
        raise ValueError("another number of values than its levels have")
    where = np.zeros((rank, len(indices)), np.int64)
    for level, dimension in enumerate(order):
        if dimension < rank:
            where[dimension] += indices[:, level]
        else:
            axis, side = blocks[dimension - rank], block_sizes[dimension - rank]
            where[axis] = where[axis] * side + indices[:, level]
    dense = np.zeros(shape, stored.dtype)
    dense[tuple(where)] = stored.reshape(-1)
    return dense


def _vector(table: Any, kind: int) -> NDArray[np.int64]:
    """A vector of indices, whatever integers it is stored in."""
    import tflite

    vectors = {value: name for name, value in vars(tflite.SparseIndexVector).items() if name.endswith("Vector")}
    vector = getattr(tflite, vectors[kind])()
    vector.Init(table.Bytes, table.Pos)
    return np.atleast_1d(vector.ValuesAsNumpy()).astype(np.int64)
