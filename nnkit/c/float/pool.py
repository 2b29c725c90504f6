"""MaxPool and AveragePool over one or two dimensions; the global ones are reductions."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import read
from nnkit.c.float.overlap import pool_accesses
from nnkit.c.float.reduce import reduce_call
from nnkit.c.float.window import window_struct
from nnkit.graph.read.pool import read_pool
from nnkit.graph.read.reduce import Reduction
from nnkit.graph.view import GraphView, Node


def pool(graph: GraphView, node: Node) -> Code:
    reading = read_pool(graph, node, one_row=True)
    ends = (read(graph, reading.data), Write(node.output), window_struct(graph, node, reading.window))
    accesses = pool_accesses(reading.window, graph.shape(reading.data)[1])
    if reading.kind == "max":
        return [Call("pool", "nnkit_max_pool", ends, accesses=accesses)]
    arguments = (*ends, reading.counts_padding)
    return [Call("pool", "nnkit_average_pool", arguments, accesses=accesses)]


def global_pool(graph: GraphView, node: Node) -> Code:
    function: Reduction = "max" if node.op_type == "GlobalMaxPool" else "mean"
    return [reduce_call(graph, node, function, range(2, len(graph.shape(node.inputs[0]))))]


LOWERINGS = dict.fromkeys(("MaxPool", "AveragePool"), pool) | dict.fromkeys(
    ("GlobalMaxPool", "GlobalAveragePool"), global_pool
)
