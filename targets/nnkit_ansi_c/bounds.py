"""By how much a float32 value of the C may differ from the Program's, where both compute a layer of the same inputs.

* What moves, selects or compares values, and what rounds one exact result once (a sum, product, quotient or square
  root of two values), is equal to the bit.
* A sum of n products runs in another order. Each order differs from the exact sum by at most
  gamma_n = n u / (1 - n u) times the sum of the products' magnitudes, with u = 2^-24 (Higham, Accuracy and Stability
  of Numerical Algorithms, 2002, section 3.1), so that two differ by at most twice that. Magnitudes of weights are
  summed; those of computed values are the largest that calibration saw.
* Everything else (exponentials, normalisation, interpolation) is a short expression of functions of other libraries:
  1e-5 of the largest magnitude around it, which is at least taken as 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.view import GraphView, Node

UNIT = 2.0**-24
EXPRESSION = 1e-5

# fmt: off
EXACT_OPS = frozenset((
    "Abs", "Add", "Ceil", "Clip", "Concat", "DepthToSpace", "Div", "Dropout", "Expand", "Flatten", "Floor",
    "Gather", "GlobalMaxPool", "Identity", "LeakyRelu", "Max", "MaxPool", "Min", "Mul", "Neg", "PRelu", "Pad",
    "ReduceMax", "ReduceMin", "Relu", "Reshape", "Sign", "Slice", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub",
    "Transpose", "Unsqueeze",
))
# fmt: on
EXACT_CUSTOM_OPS = frozenset(("Embedding", "PassThrough", "Reorg"))
_AVERAGES = ("AveragePool", "GlobalAveragePool", "ReduceMean", "Mean")
_SUMS = ("ReduceSum", "ReduceL1", "Sum")
_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def bound(graph: GraphView, node: Node, magnitudes: Mapping[str, float]) -> float:
    """For every output of the node. magnitudes: the largest that calibration saw of each computed value."""
    if node.op_type in (EXACT_CUSTOM_OPS if node.domain else EXACT_OPS):
        return 0.0
    seen = [magnitudes.get(name, 0.0) for name in graph.data_inputs(node)]
    if node.is_op(*_PRODUCTS):
        return _of_products(graph, node, magnitudes)
    terms = max(prod(graph.shape(node.inputs[0])) // max(prod(graph.shape(node.output)), 1), len(node.inputs))
    if node.is_op("AveragePool"):
        terms = prod(node.ints("kernel_shape"))
    if node.is_op(*_AVERAGES):
        return 2 * gamma(terms + 1) * max(seen, default=0.0)
    if node.is_op(*_SUMS):
        return 2 * gamma(terms) * terms * max(seen, default=0.0)
    return EXPRESSION * max(1.0, *seen, *(magnitudes.get(name, 0.0) for name in node.results))


def gamma(terms: int) -> float:
    """Higham's gamma_n for float32."""
    return terms * UNIT / (1 - terms * UNIT)


def _of_products(graph: GraphView, node: Node, magnitudes: Mapping[str, float]) -> float:
    terms = _terms(graph, node)
    scale = max(1.0, abs(node.number("alpha", 1.0))) if node.is_op("Gemm") else 1.0
    left, right = (_sums(graph, node, index, terms, magnitudes) for index in (0, 1))
    # One factor of every product is summed over, the other one is taken at its largest.
    products = min(left[0] * right[1], left[1] * right[0]) * scale
    added = _largest(graph, node, 2, magnitudes) * abs(node.number("beta", 1.0) if node.is_op("Gemm") else 1.0)
    return 2 * gamma(terms + 2) * (products + added)


def _terms(graph: GraphView, node: Node) -> int:
    """How many products an output is the sum of, at most."""
    shape = graph.shape(node.inputs[1])
    if node.is_op("Conv"):
        return prod(shape[1:])
    if node.is_op("ConvTranspose"):
        return prod(shape) // shape[1] // node.integer("group", 1)
    if node.is_op("Gemm"):
        return shape[1] if node.integer("transB", 0) else shape[0]
    return graph.shape(node.inputs[0])[-1]


def _sums(
    graph: GraphView, node: Node, index: int, terms: int, magnitudes: Mapping[str, float]
) -> tuple[float, float]:
    """(the most that an operand's factors of one output come to, the largest of them)."""
    largest = _largest(graph, node, index, magnitudes)
    weights = graph.constant(node.inputs[index])
    if weights is None or index == 0:
        return terms * largest, largest
    return float(np.abs(_by_output(node, weights)).sum(axis=1, dtype=np.float64).max()), largest


def _by_output(node: Node, weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """[outputs, terms] of constant weights, or more terms than there are."""
    if node.is_op("Conv"):
        return weights.reshape(weights.shape[0], -1)
    if node.is_op("ConvTranspose"):
        return np.moveaxis(weights, 1, 0).reshape(weights.shape[1], -1)
    if node.is_op("Gemm") and node.integer("transB", 0):
        return weights
    return np.moveaxis(weights, -2, -1).reshape(-1, weights.shape[-2])


def _largest(graph: GraphView, node: Node, index: int, magnitudes: Mapping[str, float]) -> float:
    name = node.input(index)
    array = graph.constant(name) if name else None
    if array is not None:
        return float(np.abs(array).max(initial=0.0))
    return magnitudes.get(name, 0.0)
