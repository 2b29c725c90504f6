"""Gemm of any operands: a product with the steps of what is transposed, and what is added to it."""

from __future__ import annotations

import numpy as np

from nnkit.c.float.binary import binary_call
from nnkit.c.float.calls import Call, Code, Read, Table, Write, grid, struct
from nnkit.c.float.matmul import matmul_call
from nnkit.c.float.operands import read, strides
from nnkit.c.float.packed import packed_call
from nnkit.graph.read.gemm import Gemm, read_gemm
from nnkit.graph.read.operands import required_constant
from nnkit.graph.view import GraphView, Node


def gemm(graph: GraphView, node: Node) -> Code:
    product = read_gemm(graph, node)
    if takes_clip(graph, node):
        return [_fully_connected(graph, node, product)]
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


def takes_clip(graph: GraphView, node: Node) -> bool:
    """Whether it is one row times constant weights, with a constant added, if any: a convolution of one pixel."""
    product = read_gemm(graph, node)
    added = graph.constant(product.added) if product.added else np.zeros(1, np.float32)
    wide = added is not None and added.size in (1, product.columns)
    return product.rows == 1 and wide and graph.constant(product.right) is not None


def _fully_connected(graph: GraphView, node: Node, product: Gemm) -> Call:
    weights = required_constant(graph, node, 1, "B is") * np.float32(product.alpha)
    by_output = weights if product.right_transposed else weights.T
    added = graph.constant(product.added) if product.added else None
    bias = None
    if added is not None and product.beta != 0:
        bias = np.broadcast_to(added.reshape(-1) * np.float32(product.beta), (product.columns,))
    sizes = (product.inner, 1, 1, product.columns, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1)
    table = by_output.reshape(1, product.columns, product.inner, 1, 1).astype(np.float32)
    return packed_call(read(graph, product.left), node.output, table, bias, struct("nnkit_window", *sizes))


LOWERINGS = {"Gemm": gemm}
