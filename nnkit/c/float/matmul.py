"""MatMul of any two operands; batches are even, or one side is repeated."""

from __future__ import annotations

from math import prod

import numpy as np

from nnkit.c.float.calls import Call, Code, Read, Table, Write
from nnkit.c.float.operands import read
from nnkit.graph.read.matmul import read_matmul
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node


def matmul(graph: GraphView, node: Node) -> Code:
    product = read_matmul(graph, node)
    left, right = prod(product.left_outer), prod(product.right_outer)
    if not (product.left_outer == product.right_outer or left == 1 or right == 1):
        raise Refused("it broadcasts some of its batch dimensions")
    rows, inner, columns = product.rows, product.inner, product.columns
    left_steps = (inner, 1, rows * inner if left > 1 else 0)
    right_steps = (columns, 1, inner * columns if right > 1 else 0)
    ends = read(graph, product.left), read(graph, product.right), Write(node.output)
    return [matmul_call(ends, (rows, inner, columns, max(left, right)), left_steps, right_steps)]


def matmul_call(
    ends: tuple[Read, Read, Write],
    sizes: tuple[int, int, int, int],
    left_steps: tuple[int, int, int],
    right_steps: tuple[int, int, int],
    alpha: float = 1.0,
) -> Call:
    """output [batches, rows, columns] = alpha * left x right.

    Args:
        sizes: rows, inner, columns, batches.
        left_steps, right_steps: between an operand's rows, columns and batches, in values.
    """
    steps = (Table(np.array(left_steps, np.int32)), Table(np.array(right_steps, np.int32)))
    return Call("matmul", "nnkit_matmul", (*ends, *sizes, *steps, float(alpha)))


LOWERINGS = {"MatMul": matmul}
