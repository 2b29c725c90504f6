"""Operators that sum over dimensions: reductions, softmax and normalisations."""

from __future__ import annotations

import numpy as np

from nnkit.cpu_segments.calls import (
    Argument,
    Call,
    Lowered,
    Read,
    RefusedError,
    Table,
    View,
    Write,
    grid,
    number,
    strides,
)
from nnkit.cpu_segments.graph import Layer

REDUCTIONS = {
    "ReduceSum": "SUM",
    "ReduceMean": "MEAN",
    "ReduceMax": "MAX",
    "ReduceMin": "MIN",
    "ReduceL1": "L1",
    "ReduceL2": "L2",
    "ReduceSumSquare": "SUM_SQUARE",
}


def reduction(layer: Layer) -> Lowered:
    rank = len(layer.shape(0))
    axes = layer.ints(1, "axes")
    if not axes:
        if layer.attribute("noop_with_empty_axes", 0):
            return View(layer.input(0))
        axes = list(range(rank))
    return [_reduce(layer, REDUCTIONS[layer.node.op_type], [axis % rank for axis in axes])]


def global_average_pool(layer: Layer) -> Lowered:
    return [_reduce(layer, "MEAN", list(range(2, len(layer.shape(0)))))]


def global_max_pool(layer: Layer) -> Lowered:
    return [_reduce(layer, "MAX", list(range(2, len(layer.shape(0)))))]


def softmax(layer: Layer) -> Lowered:
    return [_along_axis(layer, "softmax")]


def lp_normalization(layer: Layer) -> Lowered:
    return [_along_axis(layer, "lp_normalization", str(int(layer.attribute("p", 2))))]


def batch_normalization(layer: Layer) -> Lowered:
    if layer.attribute("training_mode", 0):
        raise RefusedError("is in training mode")
    gain, bias, mean, variance = (layer.constant(i, "its statistics").astype(np.float64) for i in range(1, 5))
    scale = gain / np.sqrt(variance + float(layer.attribute("epsilon", 1e-5)))
    tables = (Table(scale.astype(np.float32)), Table((bias - mean * scale).astype(np.float32)))
    return [_by_channel(layer, "scale_shift", tables, ())]


def lrn(layer: Layer) -> Lowered:
    parameters = [number(layer.attribute(n, d)) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))]
    return [_by_channel(layer, "lrn", (), (str(int(layer.attribute("size", 1))), *parameters))]


def _by_channel(layer: Layer, kernel: str, tables: tuple[Table, ...], last: tuple[Argument, ...]) -> Call:
    shape = layer.shape(0)
    sizes = (str(shape[1]), str(int(np.prod(shape[2:]))))
    return Call(kernel, f"nnkit_{kernel}", (Read(layer.input(0)), *tables, Write(layer.output), *sizes, *last))


def _along_axis(layer: Layer, kernel: str, *last: str) -> Call:
    shape, axis = layer.shape(0), layer.axis(-1)
    sizes = (int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :])))
    return Call(kernel, f"nnkit_{kernel}", (Read(layer.input(0)), Write(layer.output), *map(str, sizes), *last))


def _reduce(layer: Layer, op: str, axes: list[int]) -> Call:
    shape = layer.shape(0)
    kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
    steps = [0 if axis in axes else step for axis, step in enumerate(strides(kept))]
    outputs = int(np.prod(kept))
    arguments: tuple[Argument, ...] = (
        f"NNKIT_REDUCE_{op}",
        Read(layer.input(0)),
        Write(layer.output),
        grid(shape, strides(shape), steps),
        str(outputs),
        str(int(np.prod(shape)) // outputs),
    )
    return Call("reduce", "nnkit_reduce", arguments)
