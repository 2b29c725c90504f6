"""BatchNormalization in inference: one scale and one shift a channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.operands import required_constant
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph


@dataclass(frozen=True, eq=False)
class BatchNorm:
    """factor * (x - mean) / sqrt(variance + epsilon) + offset; [C] each, as the model has them."""

    data: str
    factor: NDArray[Any]
    offset: NDArray[Any]
    mean: NDArray[Any]
    variance: NDArray[Any]
    epsilon: float

    @property
    def scale(self) -> NDArray[np.float64]:
        """[C] of scale * x + shift."""
        with np.errstate(divide="ignore", invalid="ignore"):
            scale: NDArray[np.float64] = self.factor.astype(np.float64) / np.sqrt(
                self.variance.astype(np.float64) + self.epsilon
            )
        return scale

    @property
    def shift(self) -> NDArray[np.float64]:
        """[C] of scale * x + shift."""
        return np.asarray(self.offset.astype(np.float64) - self.mean.astype(np.float64) * self.scale, np.float64)


def read_batch_norm(graph: ReadableGraph, node: Node) -> BatchNorm:
    """Read a BatchNormalization. Raises Refused for computed parameters, training mode, or a bad variance."""
    if node.integer("training_mode", 0):
        raise Refused("it is in training mode")
    factor, offset, mean, variance = (required_constant(graph, node, i, "parameters are") for i in range(1, 5))
    norm = BatchNorm(node.inputs[0], factor, offset, mean, variance, node.number("epsilon", 1e-5))
    if not np.all(np.isfinite(norm.scale)):
        raise Refused("its variance plus epsilon is not positive")
    return norm
