"""Resize by tables: which rows and columns, and with what weights, is known at compile time.

The source coordinate of output position i, with s = output size / input size, by coordinate_transformation_mode:
half_pixel (i + 0.5) / s - 0.5; pytorch_half_pixel the same, 0 for an output of one; asymmetric i / s;
align_corners i * (input - 1) / (output - 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit.cpu_segments.calls import Argument, Call, Lowered, Read, RefusedError, Table, Write
from nnkit.cpu_segments.graph import Layer

_MODES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


def resize(layer: Layer) -> Lowered:
    shape, target = layer.shape(0), layer.out_shape
    mode = layer.attribute("mode", "nearest")
    if len(shape) != 4 or shape[:2] != target[:2]:
        raise RefusedError("resizes other dimensions than height and width")
    if mode not in ("nearest", "linear"):
        raise RefusedError(f"has mode '{mode}', not nearest or linear")
    if layer.attribute("antialias", 0) or layer.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise RefusedError("filters or keeps the aspect ratio")
    coordinates = [_coordinates(layer, axis) for axis in (2, 3)]
    sizes = [str(size) for size in (*shape[1:], *target[2:])]
    head: tuple[Argument, ...] = (Read(layer.input(0)), Write(layer.output), *sizes)
    if mode == "nearest":
        tables = [_nearest(layer, c, size) for c, size in zip(coordinates, shape[2:], strict=True)]
        return [Call("sample", "nnkit_sample", (*head, *tables))]
    pairs = [table for c, size in zip(coordinates, shape[2:], strict=True) for table in _linear(c, size)]
    return [Call("sample", "nnkit_bilinear", (*head, *pairs))]


def _coordinates(layer: Layer, axis: int) -> NDArray[np.float32]:
    mode = layer.attribute("coordinate_transformation_mode", "half_pixel")
    if mode not in _MODES:
        raise RefusedError(f"has coordinate_transformation_mode '{mode}' ({', '.join(_MODES)})")
    size, out = layer.shape(0)[axis], layer.out_shape[axis]
    scale = np.float32(out / size)
    if layer.has(2) and layer.constant(2, "scales").size:
        axes = [a % 4 for a in layer.attribute("axes", range(4))]
        scales = layer.constant(2, "scales").reshape(-1)
        scale = np.float32(scales[axes.index(axis)]) if axis in axes else np.float32(1)
    positions = np.arange(out, dtype=np.float32)
    if mode == "asymmetric":
        return positions / scale
    if mode == "align_corners":
        return positions * np.float32((size - 1) / (out - 1) if out > 1 else 0)
    if mode == "pytorch_half_pixel" and out == 1:
        return np.zeros(1, np.float32)
    half = np.float32(0.5)
    return (positions + half) / scale - half


def _nearest(layer: Layer, coordinates: NDArray[np.float32], size: int) -> Table:
    mode = layer.attribute("nearest_mode", "round_prefer_floor")
    half = np.float32(0.5)
    rounded = {
        "floor": np.floor(coordinates),
        "ceil": np.ceil(coordinates),
        "round_prefer_floor": np.ceil(coordinates - half),
        "round_prefer_ceil": np.floor(coordinates + half),
    }
    return Table(np.clip(rounded[mode], 0, size - 1).astype(np.int32))


def _linear(coordinates: NDArray[np.float32], size: int) -> tuple[Table, Table]:
    inside = np.clip(coordinates, 0, size - 1)
    near = np.floor(inside).astype(np.int32)
    pairs = np.stack([near, np.minimum(near + 1, size - 1)], axis=1)
    return Table(pairs.reshape(-1)), Table((inside - near).astype(np.float32))
