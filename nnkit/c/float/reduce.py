"""Reductions over any axes."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from nnkit.c.float.calls import Call, Code, View, Write, grid
from nnkit.c.float.operands import read, strides
from nnkit.graph.read.reduce import REDUCE_OPS, Reduction, read_reduce
from nnkit.graph.view import GraphView, Node

_SAME_OF_ONE = ("sum", "mean", "max", "min")  # of one value that value; norms and squares are not


def reduce(graph: GraphView, node: Node) -> Code:
    reduction = read_reduce(graph, node)
    if not reduction.axes and reduction.function in _SAME_OF_ONE:
        return View(read(graph, reduction.data).value)
    return [reduce_call(graph, node, reduction.function, reduction.axes)]


def reduce_call(graph: GraphView, node: Node, function: Reduction, axes: Collection[int]) -> Call:
    """The output's values, each from those of the first input along `axes`."""
    source = read(graph, node.inputs[0])
    shape = graph.shape(source.value)
    kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
    steps = [0 if axis in axes else step for axis, step in enumerate(strides(kept))]
    outputs = prod(kept)
    walk = grid(shape, strides(shape), steps)
    enumerator = f"NNKIT_REDUCE_{function.upper()}"
    each = prod(shape) // outputs
    arguments = (enumerator, source, Write(node.output), walk, outputs, each)
    return Call("reduce", "nnkit_reduce", arguments, ("grid",))


LOWERINGS = dict.fromkeys(REDUCE_OPS, reduce)
