"""Gemm and MatMul with constant weights: a fully connected layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.operands import optional_constant, required_constant
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph

FloatT = TypeVar("FloatT", np.float32, np.float64)


@dataclass(frozen=True, eq=False)
class FullyConnected:
    """y = x W^T + b.

    data: x, [..., I]; data_transposed: it is [I, rows] (a Gemm's transA). The numbers come through `weight` and
    `bias`, which apply alpha and beta in the precision that is asked for.
    """

    data: str
    data_transposed: bool
    _weight: NDArray[Any]  # [O, I]
    _bias: NDArray[Any] | None  # [O]
    _alpha: float
    _beta: float

    @property
    def inputs(self) -> int:
        """I."""
        return int(self._weight.shape[1])

    @property
    def outputs(self) -> int:
        """O."""
        return int(self._weight.shape[0])

    def weight(self, dtype: type[FloatT]) -> NDArray[FloatT]:
        """W, [O, I], alpha applied."""
        return _scaled(self._weight, self._alpha, dtype)

    def bias(self, dtype: type[FloatT]) -> NDArray[FloatT] | None:
        """b, [O], beta applied; None without one."""
        return None if self._bias is None else _scaled(self._bias, self._beta, dtype)


def _scaled(array: NDArray[Any], factor: float, dtype: type[FloatT]) -> NDArray[FloatT]:
    values: NDArray[FloatT] = np.asarray(array, dtype=dtype)
    return values if factor == 1.0 else values * dtype(factor)


def check_right_weights(graph: ReadableGraph, node: Node) -> None:
    """Raises Refused for a product whose constant is the left factor."""
    left, right = (graph.constant(name) is not None for name in node.inputs[:2])
    if left and not right:
        raise Refused(
            "its constant is the left factor; weights are the right one",
            remedy="turn both factors and swap them: c @ x is (x.T @ c.T).T",
        )


def read_fully_connected(graph: ReadableGraph, node: Node) -> FullyConnected:
    """Read a Gemm or MatMul with a constant right side. Raises Refused where weights or bias are computed."""
    if not any(graph.constant(name) is not None for name in node.inputs[:2]):
        raise Refused("it multiplies two computed values: its weights are not constant")
    check_right_weights(graph, node)
    weight = required_constant(graph, node, 1, "weights are")
    if weight.ndim != 2:
        raise Refused(f"its weights have {weight.ndim} axes instead of 2")
    is_gemm = node.op_type == "Gemm"
    weight = weight if is_gemm and node.integer("transB", 0) else weight.T
    bias = optional_constant(graph, node, 2, "bias is") if is_gemm else None
    if bias is not None:
        if bias.size not in (1, weight.shape[0]):
            raise Refused(f"its bias has shape {list(bias.shape)}, [{weight.shape[0]}] is supported")
        bias = np.broadcast_to(bias.reshape(-1), (weight.shape[0],))
    return FullyConnected(
        data=node.inputs[0],
        data_transposed=is_gemm and bool(node.integer("transA", 0)),
        _weight=weight,
        _bias=bias,
        _alpha=node.number("alpha", 1.0) if is_gemm else 1.0,
        _beta=node.number("beta", 1.0) if is_gemm else 1.0,
    )
