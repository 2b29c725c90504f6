"""Resize of height and width by tables: which rows and columns, and with what weights, is known beforehand."""

from __future__ import annotations

import numpy as np

from nnkit.c.float.calls import Argument, Call, Code, Table, Write
from nnkit.c.float.operands import read
from nnkit.graph.read.resize import Resize, read_resize
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node


def resize(graph: GraphView, node: Node) -> Code:
    scaling = read_resize(graph, node)
    if len(scaling.before) != 4 or scaling.before[:2] != scaling.after[:2]:
        raise Refused("it resizes other dimensions than height and width")
    if scaling.mode not in ("nearest", "linear"):
        raise Refused(f"it has mode '{scaling.mode}', not nearest or linear")
    if not scaling.plain:
        raise Refused("it filters or keeps the aspect ratio")
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


LOWERINGS = {"Resize": resize}
