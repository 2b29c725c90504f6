"""Resize of height and width by tables: which rows and columns, and with what weights, is known beforehand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit.c.float.calls import Argument, Call, Code, Scratch, Table, Write, struct
from nnkit.c.float.operands import read
from nnkit.graph.read.resize import Resize, read_resize
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node


def resize(graph: GraphView, node: Node) -> Code:
    scaling = read_resize(graph, node)
    if len(scaling.before) != 4 or scaling.before[:2] != scaling.after[:2]:
        raise Refused("it resizes other dimensions than height and width")
    if scaling.keeps_aspect:
        raise Refused("it keeps the aspect ratio")
    if scaling.mode == "cubic" or scaling.antialias or (scaling.inside_alone and scaling.mode == "linear"):
        return [_filtered(graph, scaling, node.output)]
    sizes = (*scaling.before[1:], *scaling.after[2:])
    head: tuple[Argument, ...] = (read(graph, scaling.data), Write(node.output), *sizes)
    if scaling.mode == "nearest":
        return [Call("sample", "nnkit_sample", (*head, *(Table(scaling.nearest(axis)) for axis in (2, 3))))]
    pairs = [table for axis in (2, 3) for table in _linear(scaling, axis)]
    return [Call("sample", "nnkit_bilinear", (*head, *pairs))]


def _linear(scaling: Resize, axis: int) -> tuple[Table, Table]:
    """Pairs of input positions, near and far, and the weights of the far ones."""
    size = scaling.before[axis]
    inside = np.clip(scaling.positions(axis), 0, size - 1)
    near = np.floor(inside).astype(np.int32)
    pairs = np.stack([near, np.minimum(near + 1, size - 1)], axis=1)
    return Table(pairs.reshape(-1)), Table((inside - near).astype(np.float32))


def _filtered(graph: GraphView, scaling: Resize, output: str) -> Call:
    rows, row_weights = _band(scaling.filtered(2))
    columns, column_weights = _band(scaling.filtered(3))
    taps = row_weights.shape[1], column_weights.shape[1]
    shape = struct("nnkit_resampling", *scaling.before[1:], *scaling.after[2:], *taps)
    tables = (Table(rows), Table(row_weights.reshape(-1)), Table(columns), Table(column_weights.reshape(-1)))
    work = Scratch(scaling.before[3], "float")
    return Call("resample", "nnkit_resample", (read(graph, scaling.data), Write(output), work, *tables, shape))


def _band(shares: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The shares [outputs, inputs] as a band: every output's first input, and equally many weights from there on."""
    first = np.argmax(shares != 0, axis=1)
    last = shares.shape[1] - 1 - np.argmax(shares[:, ::-1] != 0, axis=1)
    taps = int(np.max(last - first)) + 1
    first = np.minimum(first, shares.shape[1] - taps)
    weights = np.take_along_axis(shares, first[:, None] + np.arange(taps), axis=1)
    return first.astype(np.int32), weights.astype(np.float32)


LOWERINGS = {"Resize": resize}
