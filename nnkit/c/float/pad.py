"""Pad: a constant is filled in and the input copied into it; edges and reflections are tables of rows and columns."""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from nnkit.c.float.calls import Call, Code, Table, Write, copy
from nnkit.c.float.operands import read, strides
from nnkit.graph.read.pad import read_pad
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node

_BY_TABLE: dict[str, Literal["edge", "reflect"]] = {"edge": "edge", "reflect": "reflect"}


def pad(graph: GraphView, node: Node) -> Code:
    padding = read_pad(graph, node)
    source, target = read(graph, padding.data), Write(node.output)
    shape, padded = graph.shape(padding.data), graph.shape(node.output)
    if min((*padding.before, *padding.after), default=0) < 0:
        raise Refused("it has negative pads")
    if padding.mode == "constant":
        steps = strides(padded)
        begin = sum(count * step for count, step in zip(padding.before, steps, strict=True))
        fill = Call("copy", "nnkit_fill", (target, prod(padded), padding.value), ("grid",))
        return [fill, copy(source, Write(node.output, begin), shape, strides(shape), steps)]
    mode = _BY_TABLE.get(padding.mode)
    if mode is None or len(shape) < 2 or any(padding.before[:-2]) or any(padding.after[:-2]):
        raise Refused(f"it pads with mode '{padding.mode}' beyond height and width")
    tables = [
        Table(np.pad(np.arange(shape[a], dtype=np.int32), (padding.before[a], padding.after[a]), mode=mode))
        for a in (-2, -1)
    ]
    sizes = (prod(shape[:-2]), *shape[-2:], *padded[-2:])
    return [Call("sample", "nnkit_sample", (source, target, *sizes, *tables))]


LOWERINGS = {"Pad": pad}
