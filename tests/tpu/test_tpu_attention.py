"""Attention on the BM chips: products of their own, windows in the place of images, and what the compiler adds up."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from tpu_build import built, refuted
from tpu_net import IMAGE, ROWS, Net

from nnkit.calibrate.stats import ValueRange
from nnkit.graph import Model
from nnkit.simulate import simulate
from nnkit_tpu.batch import with_batch
from nnkit_tpu.chip_forms import for_chip
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import TpuBinary, TpuConv, TpuGraph, TpuMatMul, TpuPermute, TpuReduce, TpuSlice
from nnkit_tpu.quantize import Precision, to_program
from nnkit_tpu.toolchain import Toolchain
from nnkit_tpu.windows_in_front import windows_in_front

_HEADS, _WIDTH = 2, 4


def _entry(net: Net, value: str, index: int) -> str:
    """One entry of the first axis."""
    part = net("Slice", value, net.ints(index), net.ints(index + 1), net.ints(0))
    return net("Squeeze", part, net.ints(0))


def _attention(net: Net, rows: str, windows: int, count: int, masks: tuple[str, ...] = ()) -> str:
    """Heads of `_WIDTH` features on [windows, count, 8]: one product for query, key and value."""
    features = _HEADS * _WIDTH
    product = net("Add", net("MatMul", rows, net.normal(features, 3 * features)), net.normal(3 * features))
    heads = net("Reshape", product, net.ints(windows, count, 3, _HEADS, _WIDTH))
    turned = net("Transpose", heads, perm=[2, 0, 3, 1, 4])
    query, key, value = (_entry(net, turned, index) for index in range(3))
    scaled = net("Mul", query, net.constant(0.5))
    scores = net("MatMul", scaled, net("Transpose", key, perm=[0, 1, 3, 2]), to="scores")
    for mask in masks:
        scores = net("Add", scores, mask)
    mixed = net("MatMul", net("Softmax", scores, axis=-1), value)
    back = net("Reshape", net("Transpose", mixed, perm=[0, 2, 1, 3]), net.ints(windows, count, features))
    return net("MatMul", back, net.normal(features, features))


def _in_windows() -> Model:
    """Four windows of 30 places of an image, with a bias of heads and a mask of windows."""
    net = Net()
    last = net("Transpose", "x", perm=[0, 2, 3, 1])
    apart = net("Transpose", net("Reshape", last, net.ints(1, 2, 6, 2, 5, 8)), perm=[0, 1, 3, 2, 4, 5])
    windows = net("Reshape", apart, net.ints(4, 30, 8))
    mask = np.where(net.random.uniform(0, 1, (4, 1, 30, 30)) < 0.2, -6.0, 0.0)
    mixed = _attention(net, windows, 4, 30, (net.normal(1, 2, 30, 30), net.constant(mask)))
    net("Reshape", mixed, net.ints(1, 4, 30, 8), to="out")
    return net.model(["out"])


def _of_rows() -> Model:
    """Six rows, one beside another as torch's attention has them, and a number that scales behind a transposition."""
    net = Net()
    first = net("Transpose", net("MatMul", "rows", net.normal(20, 8)), perm=[1, 0, 2])
    product = net("MatMul", first, net.normal(8, 24))
    parts = net(
        "Transpose",
        net("Unsqueeze", net("Reshape", product, net.ints(6, 1, 3, 8)), net.ints(0)),
        perm=[3, 1, 2, 0, 4],
    )
    parts = net("Squeeze", parts, net.ints(3))
    heads = []
    for index in range(3):
        folded = net("Reshape", _entry(net, parts, index), net.ints(6, 2, 4))
        heads.append(net("Transpose", folded, perm=[1, 0, 2]))
    scores = net("MatMul", net("Mul", heads[0], net.constant(0.5)), net("Transpose", heads[1], perm=[0, 2, 1]))
    mixed = net("Transpose", net("MatMul", net("Softmax", scores, axis=-1), heads[2]), perm=[1, 0, 2])
    net("Reshape", mixed, net.ints(1, 6, 8), to="out")
    return net.model(["out"])


def _assert_same_values(one: TpuGraph, other: TpuGraph) -> None:
    """All that both have by one name, as reports compare it with the float network."""
    ours, theirs = _values(one), _values(other)
    assert "out" in ours.keys() & theirs.keys()
    for name in ours.keys() & theirs.keys():
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-5, err_msg=name)


def _values(graph: TpuGraph) -> Mapping[str, np.ndarray]:
    random = np.random.default_rng(2)
    given = {"x": random.normal(0, 1, IMAGE[1:]), "rows": random.normal(0, 1, ROWS[1:])}
    program = to_program(graph, {}, Precision("bm1684x", "F32"))
    read = {name: given[name].astype(np.float32) for name in program.inputs}
    return simulate(program, read)


@pytest.mark.parametrize("model", [_in_windows(), _of_rows()], ids=["windows", "rows"])
def test_query_key_and_value_are_products_of_their_own(model: Model) -> None:
    graph = lower(model, "net")
    made = for_chip(graph, "bm1684x", "INT8")
    assert any(isinstance(op, TpuSlice) for op in graph.ops)
    assert not any(isinstance(op, TpuSlice) for op in made.ops)
    products = [op for op in made.ops if isinstance(op, TpuMatMul) and op.weight is not None]
    assert [op.weight.shape[1] for op in products if op.weight is not None].count(8) == len(products)
    assert not any(isinstance(op, TpuBinary) and op.function == "mul" for op in made.ops)  # in the query's weights
    assert len(made.tensors) < len(graph.tensors)
    _assert_same_values(made, graph)


def _with_unit_rows() -> Model:
    """Queries and keys of length 1, as Swin v2 has them, in two windows."""
    net = Net()
    windows = net("Reshape", "x", net.ints(2, 60, 8))
    product = net("MatMul", windows, net.normal(8, 16))
    turned = net("Transpose", net("Reshape", product, net.ints(2, 60, 2, 2, 4)), perm=[2, 0, 3, 1, 4])
    units = []
    for index in range(2):
        part = _entry(net, turned, index)
        length = net("Max", net("ReduceL2", part, net.ints(-1)), net.constant(1e-3))
        units.append(net("Div", part, length, to=f"unit{index}"))
    scores = net("MatMul", units[0], net("Transpose", units[1], perm=[0, 1, 3, 2]))
    net("Reshape", scores, net.ints(1, 4, 60, 60), to="out")
    return net.model(["out"])


def test_heads_are_transposed_behind_their_normalisation() -> None:
    graph = lower(_with_unit_rows(), "net")
    made = for_chip(graph, "bm1684x", "INT8")
    assert graph.tensors["unit0"].shape == made.tensors["unit0"].shape == (1, 2, 2, 60, 4)
    assert isinstance(made.producer("unit0"), TpuPermute)
    assert not isinstance(graph.producer("unit0"), TpuPermute)
    lengths = [op for op in made.ops if isinstance(op, TpuReduce)]
    assert [made.tensors[op.output].shape for op in lengths] == [(1, 2, 60, 2, 1)] * 2
    _assert_same_values(made, graph)


def test_what_is_sliced_along_rows_stays_one_product() -> None:
    net = Net()
    product = net("MatMul", "rows", net.normal(20, 8))
    halves = [net("Slice", product, net.ints(at), net.ints(at + 3), net.ints(1)) for at in (0, 3)]
    graph = lower(net.model(halves), "net")
    assert len([op for op in for_chip(graph, "bm1684x", "INT8").ops if isinstance(op, TpuMatMul)]) == 1


def test_bias_and_mask_are_one_sum() -> None:
    (added,) = [op for op in lower(_in_windows(), "net").ops if isinstance(op, TpuBinary) and op.function == "add"]
    assert added.constant is not None
    assert added.constant.shape == (1, 4, 2, 30, 30)


@pytest.mark.parametrize("images", [1, 3])
def test_windows_stand_in_the_place_of_images(images: int) -> None:
    graph = for_chip(lower(_in_windows(), "net"), "bm1684x", "INT8")
    written = windows_in_front(with_batch(graph, images))
    scores = written.producer("scores")
    assert scores is not None
    assert written.tensors["scores"].shape == (4 * images, 2, 30, 30)
    assert written.tensors["out"].shape == (images, 4, 30, 8)
    (added,) = [op for op in written.ops if isinstance(op, TpuBinary)]
    assert added.constant is not None
    assert added.constant.shape == (4 * images, 2, 30, 30)


def test_a_build_with_windows_is_exact(tpu_toolchain: object, tmp_path: Path) -> None:
    report = built(_in_windows(), "chip: bm1684x, batch: 2", tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)
    assert report["details"]["prediction"]["disagreements"] == []


def test_masked_scores_keep_their_steps(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """With a mask of -100, 8 bits would leave steps of 0.8 to scores of a few units."""
    net = Net()
    rows = net("MatMul", "rows", net.normal(20, 8, spread=0.5))
    scores = net("MatMul", rows, net("Transpose", rows, perm=[0, 2, 1]), to="scores")
    mask = np.where(np.eye(6) > 0, 0.0, np.where(net.random.uniform(0, 1, (6, 6)) < 0.4, -100.0, 0.0))
    masked = net("Add", scores, net.constant(mask), to="masked")
    model = net.model([net("MatMul", net("Softmax", masked, axis=-1), rows, to="out")])
    graph = for_chip(lower(model, "net"), "bm1684x", "INT8")
    ranges = dict.fromkeys(graph.tensors, ValueRange(-100.0, 8.0, -100.0, 8.0))
    modes = {op.output: op.mode for op in to_program(graph, ranges, Precision("bm1684x", "INT8")).ops}
    assert modes["scores"] == modes["masked"] == "F16"
    report = built(model, "chip: bm1684x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999


def _scaled_heads(net: Net, to: str) -> str:
    """Heads of a product with a number behind their transposition, which a rewrite makes a convolution of."""
    heads = net("Reshape", net("MatMul", "rows", net.normal(20, 20)), net.ints(1, 6, 2, 10))
    factor = net.constant(np.full((2, 1, 1, 1), 0.42))
    return net("Conv", net("Transpose", heads, perm=[0, 2, 1, 3]), factor, group=2, to=to)


def test_a_number_behind_heads_is_in_the_weights_of_their_product() -> None:
    net = Net()
    query, key = (_scaled_heads(net, name) for name in ("query", "key"))
    turned = net("Transpose", key, perm=[0, 1, 3, 2])
    scores = net("MatMul", query, turned, to="scores")
    halved = net("Conv", scores, net.constant(np.full((2, 1, 1, 1), 0.5)), group=2, to="out")
    faint = net("Conv", halved, net.constant(np.full((2, 1, 1, 1), 1e-6)), group=2, to="faint")
    graph = lower(net.model([halved, faint]), "net", "bm1684x")
    written = for_chip(graph, "bm1684x", "INT8")
    _assert_same_values(graph, written)
    assert [op.output for op in written.ops if isinstance(op, TpuConv)] == ["faint"]
    assert [op.output for op in written.ops if isinstance(op, TpuBinary)] == ["out"]


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_a_store_may_transpose(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    """The compiler makes maps of transpositions behind groups, as its scripts do."""
    net = Net()
    image = net("Conv", "x", net.normal(8, 8, 3, 3), pads=[1, 1, 1, 1])
    orders = [(0, *order) for order in permutations((1, 2, 3))][1:]
    turned = [
        net("Sigmoid", net("Transpose", image, perm=order), to=f"turned{at}") for at, order in enumerate(orders)
    ]
    report = built(net.model(turned), f"chip: {chip}", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    (final,) = tmp_path.rglob("compiled/final.mlir")
    assert "indexing_map" in final.read_text(encoding="utf-8")
