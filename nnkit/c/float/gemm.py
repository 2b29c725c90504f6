"""Gemm of any operands: a product with the steps of what is transposed, and what is added to it."""

from __future__ import annotations

import numpy as np

from nnkit.c.float.binary import binary_call
from nnkit.c.float.calls import Call, Code, Read, Table, Write, grid
from nnkit.c.float.matmul import matmul_call
from nnkit.c.float.operands import read, strides
from nnkit.graph.read.gemm import read_gemm
from nnkit.graph.read.operands import required_constant
from nnkit.graph.view import GraphView, Node


def gemm(graph: GraphView, node: Node) -> Code:
    product = read_gemm(graph, node)
    left_steps = (1, product.rows, 0) if product.left_transposed else (product.inner, 1, 0)
    right_steps = (1, product.inner, 0) if product.right_transposed else (product.columns, 1, 0)
    ends = read(graph, product.left), read(graph, product.right), Write(node.output)
    sizes = (product.rows, product.inner, product.columns, 1)
    calls = [matmul_call(ends, sizes, left_steps, right_steps, product.alpha)]
    if not product.added or product.beta == 0:
        return calls
    result = Read(node.output)
    if product.beta == 1:
        return [*calls, binary_call(graph, node, "NNKIT_ADD", result, read(graph, product.added))]
    shape = graph.shape(node.output)
    added = required_constant(graph, node, 2, "C, with a beta other than 1, is") * np.float32(product.beta)
    table = Table(np.ascontiguousarray(np.broadcast_to(added, shape), np.float32))
    steps = grid(shape, strides(shape), strides(shape))
    arguments = ("NNKIT_ADD", result, table, Write(node.output), steps)
    return [*calls, Call("binary", "nnkit_binary", arguments, ("grid",))]


LOWERINGS = {"Gemm": gemm}
