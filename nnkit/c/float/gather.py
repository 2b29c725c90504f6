"""Gather by constant indices: a table of the places that are read."""

from __future__ import annotations

import numpy as np

from nnkit.c.float.calls import Call, Code, Table, Write
from nnkit.c.float.operands import around_axis, read
from nnkit.graph.read.gather import read_gather
from nnkit.graph.view import GraphView, Node


def gather(graph: GraphView, node: Node) -> Code:
    part = read_gather(graph, node)
    before, length, behind = around_axis(graph.shape(part.data), part.axis)
    sizes = (before, length, behind, part.picked.size, behind)
    tables = (Table(part.picked.astype(np.int32)), Table(np.arange(behind, dtype=np.int32)))
    return [Call("sample", "nnkit_sample", (read(graph, part.data), Write(node.output), *sizes, *tables))]


LOWERINGS = {"Gather": gather}
