"""The executor's arithmetic where the chip's own is not known: deterministic integers that follow the data flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit_tpu.layer_group.backward import Span
from nnkit_tpu.layer_group.kernels import Rows, compute, stored_dtype
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp

Values: TypeAlias = dict[str, NDArray[Any]]


class Arithmetic(Protocol):
    """What the executor computes with. Values are [n, c, h, w] integers as wide as they are stored."""

    def values(self, graph: GroupGraph, seed: int) -> tuple[Values, Values]:
        """(inputs, weights) of the graph; weights as the bytes that are loaded."""
        ...

    def whole(self, graph: GroupGraph, op: GroupOp, values: Mapping[str, NDArray[Any]], weights: Values) -> Any:
        """The unsliced result of an op."""
        ...

    def compute(
        self, graph: GroupGraph, op: GroupOp, sources: Sequence[Rows], weights: Sequence[NDArray[Any]], rows: Span
    ) -> NDArray[Any]:
        """`rows` of an op's result from the rows and weights that are in local memory.

        Raises:
            MissingRowsError: the sources do not hold what the op reads.
        """
        ...


class DataFlow:
    """The arithmetic of `kernels.py`: not the chip's, but every value and every byte of the weights counts."""

    def values(self, graph: GroupGraph, seed: int) -> tuple[Values, Values]:
        """Integers at random over the whole range of one byte."""
        generator = np.random.default_rng(seed)
        inputs = {}
        for name in graph.inputs:
            tensor = graph.tensors[name]
            inputs[name] = generator.integers(-128, 128, tensor.shape).astype(stored_dtype(tensor.dtype_bytes))
        weights = {
            name: generator.integers(-128, 128, (*w.shape[:3], w.shape[3] * w.dtype_bytes)).astype(np.int8)
            for name, w in graph.weights.items()
        }
        return inputs, weights

    def whole(self, graph: GroupGraph, op: GroupOp, values: Mapping[str, NDArray[Any]], weights: Values) -> Any:
        """The op on all rows."""
        sources = [Rows(values[name], 0, graph.tensors[name].shape[2]) for name in op.inputs]
        rows = Span(0, graph.tensors[op.output].shape[2])
        return self.compute(graph, op, sources, [weights[w] for w in op.weights], rows)

    def compute(
        self, graph: GroupGraph, op: GroupOp, sources: Sequence[Rows], weights: Sequence[NDArray[Any]], rows: Span
    ) -> NDArray[Any]:
        """As `kernels.compute`."""
        result = graph.tensors[op.output]
        return compute(op, sources, weights, rows, result.shape, stored_dtype(result.dtype_bytes))
