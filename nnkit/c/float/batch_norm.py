"""BatchNormalization: a scale and a shift by channel, worked out when the code is generated."""

from __future__ import annotations

from math import prod

import numpy as np

from nnkit.c.float.calls import Call, Code, Table, Write
from nnkit.c.float.operands import read
from nnkit.graph.read.batch_norm import read_batch_norm
from nnkit.graph.view import GraphView, Node


def batch_norm(graph: GraphView, node: Node) -> Code:
    norm = read_batch_norm(graph, node)
    source = read(graph, norm.data)
    shape = graph.shape(norm.data)
    tables = (Table(norm.scale.astype(np.float32)), Table(norm.shift.astype(np.float32)))
    arguments = (source, *tables, Write(node.output), shape[1], prod(shape[2:]))
    return [Call("scale_shift", "nnkit_scale_shift", arguments, in_place=(0,))]


LOWERINGS = {"BatchNormalization": batch_norm}
