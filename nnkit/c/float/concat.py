"""Concat: a copy of each input to its place in the output, or none where the input is written there."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from nnkit.c.float.calls import Code, Write, copy
from nnkit.c.float.operands import read, strides
from nnkit.graph.read.concat import read_concat
from nnkit.graph.view import GraphView, Node


def concat(graph: GraphView, node: Node) -> Code:
    whole = read_concat(graph, node)
    steps = strides(graph.shape(node.output))
    calls = []
    for name, start in zip(whole.inputs, whole.starts, strict=True):
        shape, target = graph.shape(name), Write(node.output, start * steps[whole.axis])
        call = copy(read(graph, name), target, shape, strides(shape), steps)
        calls.append(replace(call, joins=prod(shape[: whole.axis]) == 1))
    return calls


LOWERINGS = {"Concat": concat}
