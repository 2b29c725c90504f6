"""Embedding of `ai.nnkit`: rows of a table by their numbers."""

from __future__ import annotations

from math import prod

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import read
from nnkit.custom_ops import Embedding
from nnkit.graph.view import GraphView, Node


def embedding(graph: GraphView, node: Node, op: Embedding) -> Code:
    ids, table = (read(graph, name) for name in node.inputs)
    rows, features = graph.shape(table.value)
    count = prod(graph.shape(ids.value))
    return [Call("embedding", "nnkit_embedding", (ids, table, Write(node.output), count, rows, features))]
