"""MatMul of any operands against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.matmul import read_matmul

RNG = np.random.default_rng(6)


def _weight(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("left", "right"), [((2, 3, 4), (4, 5)), ((4,), (4, 5)), ((2, 4), (4,)), ((1, 2, 3, 4), (6, 1, 4, 2))]
)
def test_products_of_any_operands(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    case = one_node("MatMul", left, {"w": _weight(*right)})
    product = read_matmul(case.view, case.node)
    a = case.x.reshape(*product.left_outer, product.rows, product.inner)
    b = np.asarray(case.view.constant("w")).reshape(*product.right_outer, product.inner, product.columns)
    np.testing.assert_allclose((a @ b).reshape(case.y.shape), case.y, rtol=1e-5)
