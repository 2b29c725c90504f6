"""Attention in INT8 on the BM chips, of which the compiler makes one layer: the releases are as simulated."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.toolchain import Toolchain

_FEATURES = 20


def _attention(net: Net, queries: str, keys: str, values: str, rows: tuple[int, int, int], heads: int) -> str:
    """Rows of 20 features; rows: windows, queries, keys."""
    windows, asked, known = rows
    parts = [
        net("Reshape", net("MatMul", value, net.normal(_FEATURES, _FEATURES)), net.ints(windows, count, heads, -1))
        for value, count in ((queries, asked), (keys, known), (values, known))
    ]
    query, value = (net("Transpose", parts[index], perm=[0, 2, 1, 3]) for index in (0, 2))
    scores = net("Mul", net("MatMul", query, net("Transpose", parts[1], perm=[0, 2, 3, 1])), net.constant(0.3))
    mixed = net("Transpose", net("MatMul", net("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    joined = net("Reshape", mixed, net.ints(1, windows * asked, _FEATURES))
    return net("MatMul", joined, net.normal(_FEATURES, _FEATURES), to="projected")


def _normal(net: Net, value: str) -> str:
    return net("LayerNormalization", value, net.positive(_FEATURES), net.normal(_FEATURES), axis=-1)


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
@pytest.mark.parametrize("case", ["of itself", "of one other", "of two others", "windows", "a single head"])
def test_the_release_is_as_simulated(tpu_toolchain: Toolchain, tmp_path: Path, chip: str, case: str) -> None:
    """Of windows (MobileViT), and of keys and values made of two (DETR), that layer's code gives other values; of a
    single head (SegFormer) the compiler takes the products to be of rows as batches."""
    net = Net()
    rows = _normal(net, "rows") if case != "windows" else ""
    memory = _normal(net, net("Reshape", "x", net.ints(1, 48, _FEATURES))) if case != "of itself" else ""
    match case:
        case "of itself":
            last = _attention(net, rows, rows, rows, (1, 6, 6), 2)
        case "of one other":
            last = _attention(net, rows, memory, memory, (1, 6, 48), 2)
        case "of two others":
            placed = net("Add", memory, net.normal(1, 48, _FEATURES))
            last = _attention(net, rows, placed, memory, (1, 6, 48), 2)
        case "a single head":
            last = _attention(net, memory, rows, rows, (1, 48, 6), 1)
        case _:
            windows = net("Reshape", memory, net.ints(4, 12, _FEATURES))
            last = _attention(net, windows, windows, windows, (4, 12, 12), 2)
    report = built(net.model([last]), f"chip: {chip}", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["cosine"] > 0.99
