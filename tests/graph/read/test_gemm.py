"""Gemm of any operands against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.gemm import read_gemm
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("attributes", [{}, {"transA": 1, "alpha": 0.5}, {"transB": 1, "beta": 2.0}])
def test_the_reading_computes_what_onnx_runtime_does(attributes: dict[str, Any]) -> None:
    left, right = (3, 2) if "transA" in attributes else (2, 3), (4, 3) if "transB" in attributes else (3, 4)
    constants = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in (("w", right), ("c", (2, 4)))}
    case = one_node("Gemm", left, constants, **attributes)
    gemm = read_gemm(case.view, case.node)
    assert (gemm.left, gemm.right, gemm.added) == ("x", "w", "c")
    a = case.x.T if gemm.left_transposed else case.x
    b = constants["w"].T if gemm.right_transposed else constants["w"]
    assert (a.shape, b.shape) == ((gemm.rows, gemm.inner), (gemm.inner, gemm.columns))
    np.testing.assert_allclose(gemm.alpha * (a @ b) + gemm.beta * constants["c"], case.y, rtol=1e-5)


def test_only_matrices() -> None:
    case = one_node("MatMul", (1, 2, 3), {"w": np.ones((3, 4), np.float32)})
    node = Node(**{**vars(case.node), "op_type": "Gemm"})
    with pytest.raises(Refused, match="it multiplies a tensor of 3 dimensions, a matrix is needed"):
        read_gemm(case.view, node)
