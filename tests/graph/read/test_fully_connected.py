"""Fully connected layers, and the Gemms and MatMuls that they are, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node, view_of
from onnx import helper

from nnkit.graph.read.fully_connected import read_fully_connected
from nnkit.graph.read.gemm import read_gemm
from nnkit.graph.refusal import Refused

RNG = np.random.default_rng(6)

ADDED = RNG.standard_normal(4).astype(np.float32)


def _weight(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("x", "constants", "attributes"),
    [
        ((2, 3), {"w": _weight(3, 4), "c": ADDED}, {}),
        ((2, 3), {"w": _weight(4, 3), "c": ADDED}, {"transB": 1, "alpha": 0.3, "beta": 1.7}),
        ((3, 2), {"w": _weight(3, 4)}, {"transA": 1}),
        ((1, 3), {"w": _weight(3, 4), "c": np.float32([2.5])}, {"beta": 0.25}),
        ((1, 3), {"w": _weight(3, 4), "c": ADDED.reshape(1, 4)}, {}),
    ],
)
def test_a_gemm_with_constants_is_fully_connected(
    x: tuple[int, int], constants: dict[str, Any], attributes: dict[str, Any]
) -> None:
    case = one_node("Gemm", x, constants, **attributes)
    layer = read_fully_connected(case.view, case.node)
    data = case.x.T if layer.data_transposed else case.x
    bias = layer.bias(np.float64)
    y = data @ layer.weight(np.float64).T + (0 if bias is None else bias)
    np.testing.assert_allclose(y, case.y, rtol=1e-5)
    assert (layer.inputs, layer.outputs) == (3, 4)
    gemm = read_gemm(case.view, case.node)
    assert (gemm.rows, gemm.inner, gemm.columns) == (x[1] if layer.data_transposed else x[0], 3, 4)
    assert (gemm.alpha, gemm.beta) == pytest.approx((attributes.get("alpha", 1), attributes.get("beta", 1)))
    assert gemm.added == ("c" if "c" in constants else "")


def test_factors_apply_in_the_precision_that_is_asked_for() -> None:
    weight = np.float32([[1 / 3]])
    case = one_node("Gemm", (1, 1), {"w": weight}, alpha=0.1)
    layer = read_fully_connected(case.view, case.node)
    assert layer.weight(np.float32)[0, 0] == np.float32(0.1) * weight[0, 0]
    assert layer.weight(np.float64)[0, 0] == np.float64(np.float32(0.1)) * np.float64(weight[0, 0])


def test_a_matmul_with_a_constant_right_side_is_fully_connected() -> None:
    case = one_node("MatMul", (1, 5, 3), {"w": _weight(3, 4)})
    layer = read_fully_connected(case.view, case.node)
    np.testing.assert_allclose(case.x @ layer.weight(np.float32).T, case.y, rtol=1e-5)
    assert layer.bias(np.float32) is None


@pytest.mark.parametrize(
    ("op", "inputs", "constants", "reason"),
    [
        ("Gemm", ("x", "w"), {}, "it multiplies two computed values: its weights are not constant"),
        ("MatMul", ("w", "x"), {"w": _weight(3, 3)}, "its constant is the left factor; weights are the right one"),
        ("Gemm", ("x", "w", "c"), {"w": _weight(3, 3)}, "its bias is not constant"),
        ("Gemm", ("x", "w", "c"), {"w": _weight(3, 3), "c": _weight(3, 3)}, r"its bias has shape \[3, 3\]"),
        ("MatMul", ("x", "w"), {"w": _weight(2, 3, 3)}, "its weights have 3 axes instead of 2"),
    ],
)
def test_refusals(op: str, inputs: tuple[str, ...], constants: dict[str, Any], reason: str) -> None:
    computed = {name: (3, 3) for name in inputs if name not in constants}
    view = view_of([helper.make_node(op, list(inputs), ["y"])], computed, constants)
    with pytest.raises(Refused, match=reason):
        read_fully_connected(view, view.nodes[0])
