"""Products of two computed sides that repeat one of them, and reductions over what is stacked in front."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import TpuMatMul
from nnkit_tpu.toolchain import Toolchain

_CASES = {
    "heads share a key": ((1, 4, 24, 10), (1, 1, 10, 12)),
    "queries are shared": ((1, 1, 96, 10), (1, 6, 10, 2)),
    "an outer axis": ((1, 8, 6, 2, 10), (1, 1, 6, 10, 2)),
    "both": ((1, 8, 1, 12, 10), (1, 1, 6, 10, 2)),
    "ranks": ((1, 8, 12, 10), (1, 10, 12)),
}
"""Shapes of 8 x 12 x 10 numbers, and of 6 x 20."""


def _product(left: Sequence[int], right: Sequence[int]) -> Model:
    net = Net()
    images, rows = net("Relu", net("Conv", "x", net.normal(8, 8, 1, 1))), net("MatMul", "rows", net.normal(20, 20))
    sides = net("Reshape", images, net.ints(*left)), net("Reshape", net("Relu", rows), net.ints(*right))
    return net.model([net("MatMul", *sides, to="product")])


@pytest.mark.parametrize("options", ["chip: bm1684x", "chip: bm1688, precision: f16", "chip: cv181x"])
@pytest.mark.parametrize("case", _CASES)
def test_products_that_repeat_a_side_are_built(
    tpu_toolchain: object, tmp_path: Path, case: str, options: str
) -> None:
    report = built(_product(*_CASES[case]), options, tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999


def test_nothing_is_repeated() -> None:
    graph = lower(_product(*_CASES["heads share a key"]), "net", "bm1684x")
    (product,) = (op for op in graph.ops if isinstance(op, TpuMatMul) and op.weight is None)
    assert [graph.tensors[name].shape for name in (*product.inputs, product.output)] == [
        (1, 1, 96, 10),
        (1, 1, 10, 12),
        (1, 1, 96, 12),
    ]


def test_repeated_images_are_refused() -> None:
    net = Net()
    several = net("Reshape", net("Relu", "x"), net.ints(8, 12, 10))
    one = net("Reshape", net("Relu", "rows"), net.ints(1, 10, 12))
    with pytest.raises(ModelError, match="of the same images"):
        lower(net.model([net("Reshape", net("MatMul", several, one), net.ints(1, 8, 12, 12))]), "net", "bm1684x")


@pytest.mark.parametrize("options", ["chip: bm1684x", "chip: bm1688, precision: f16", "chip: cv181x"])
@pytest.mark.parametrize("function", ["ReduceMean", "ReduceMax"])
def test_what_is_stacked_in_front_is_reduced(
    tpu_toolchain: object, tmp_path: Path, function: str, options: str
) -> None:
    """As the mean of two classifiers, which PyTorch's stack writes so."""
    net = Net()
    heads = [
        net("Unsqueeze", net("MatMul", net("Relu", "rows"), net.normal(20, 8)), net.ints(0), to=name)
        for name in ("one", "other")
    ]
    stacked = net("Concat", *heads, axis=0, to="stacked")
    reduced = net(function, stacked, net.ints(0), keepdims=0, to="reduced")
    report = built(net.model([reduced]), options, tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv181x"])
def test_constant_queries_and_weights_of_every_head(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    """As of a decoder whose first queries are constants (DETR): a grouped convolution of the keys."""
    net = Net()
    keys = net("Reshape", net("MatMul", "rows", net.normal(20, 12)), net.ints(1, 6, 3, 4))
    scores = net("MatMul", net.normal(1, 3, 5, 4), net("Transpose", keys, perm=[0, 2, 3, 1]), to="scores")
    values = net("Transpose", keys, perm=[0, 2, 1, 3])
    read = net("MatMul", net("Softmax", scores, axis=-1), values)
    outputs = [net("MatMul", read, net.normal(3, 4, 7), to="projected"), net("MatMul", net.normal(9, 6), values)]
    report = built(net.model(outputs), f"chip: {chip}", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert [layer["op"] for layer in report["layers"]].count("conv") == 3
