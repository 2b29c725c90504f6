"""Slice and Split: copies that begin inside the input."""

from __future__ import annotations

from nnkit.c.float.calls import Code, Write, copy
from nnkit.c.float.operands import read, strides
from nnkit.graph.read.slice import read_slice, read_split
from nnkit.graph.view import GraphView, Node


def slice_(graph: GraphView, node: Node) -> Code:
    part = read_slice(graph, node)
    steps, shape = strides(graph.shape(part.data)), graph.shape(node.output)
    begin = sum(start * step for start, step in zip(part.starts, steps, strict=True))
    walk = [step * by for step, by in zip(steps, part.steps, strict=True)]
    return [copy(read(graph, part.data, begin), Write(node.output), shape, walk, strides(shape))]


def split(graph: GraphView, node: Node) -> Code:
    parts = read_split(graph, node)
    steps = strides(graph.shape(parts.data))
    calls = []
    for name, start in zip(node.outputs, parts.starts, strict=True):
        source, shape = read(graph, parts.data, start * steps[parts.axis]), graph.shape(name)
        calls.append(copy(source, Write(name), shape, steps, strides(shape)))
    return calls


LOWERINGS = {"Slice": slice_, "Split": split}
