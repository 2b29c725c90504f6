"""Reductions against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.reduce import read_reduce

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "l1": lambda x, **options: np.sum(np.abs(x), **options),
    "l2": lambda x, **options: np.sqrt(np.sum(x * x, **options)),
    "sum_square": lambda x, **options: np.sum(x * x, **options),
}


@pytest.mark.parametrize(
    "op", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"]
)
@pytest.mark.parametrize(("axes", "keepdims"), [((-1, 1), 1), ((2,), 0), (None, 1)])
def test_reductions(op: str, axes: tuple[int, ...] | None, keepdims: int) -> None:
    given = {} if axes is None else {"axes": np.array(axes, np.int64)}
    case = one_node(op, (2, 3, 4, 5), given, opset=18, keepdims=keepdims)
    read = read_reduce(case.view, case.node)
    y = FUNCTIONS[read.function](case.x, axis=read.axes, keepdims=read.keeps_dims)
    np.testing.assert_allclose(y, case.y, rtol=1e-5, atol=1e-5)


def test_axes_of_older_operator_sets_are_an_attribute() -> None:
    case = one_node("ReduceMean", (2, 3, 4), opset=13, axes=[-1, 0])
    assert read_reduce(case.view, case.node).axes == (0, 2)


def test_a_reduction_may_do_nothing() -> None:
    case = one_node("ReduceSum", (2, 3), noop_with_empty_axes=1)
    assert read_reduce(case.view, case.node).axes == ()
    np.testing.assert_array_equal(case.x, case.y)
