"""Convolutions that give query, key and value at once, as the networks of LeViT and YOLO11 have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.graph import Model
from nnkit_tpu.lowering import lower
from nnkit_tpu.parted_convolutions import parted_convolutions
from nnkit_tpu.program import TpuConv, TpuSlice

_HEADS, _KEYS, _VALUES = 2, 4, 8
_OF_A_HEAD = 2 * _KEYS + _VALUES
_PIXELS = 12 * 10


def _attention(net: Net, source: str, pixels: int, kernel: int = 1) -> str:
    weight = net.normal(_HEADS * _OF_A_HEAD, 8, kernel, kernel)
    joined = net("Conv", source, weight, net.normal(_HEADS * _OF_A_HEAD), pads=[kernel // 2] * 4, to="qkv")
    heads = net("Reshape", joined, net.ints(1, _HEADS, _OF_A_HEAD, pixels), to="heads")
    ends = (0, _KEYS, 2 * _KEYS, _OF_A_HEAD)
    query, key, value = (
        net("Slice", heads, net.ints(a), net.ints(b), net.ints(2), to=name)
        for name, a, b in zip(("query", "key", "value"), ends, ends[1:], strict=False)
    )
    scores = net("MatMul", net("Transpose", query, perm=[0, 1, 3, 2], to="turned"), key, to="scores")
    shares = net("Softmax", net("Mul", scores, net.constant(_KEYS**-0.5), to="scaled"), axis=-1, to="shares")
    mixed = net("MatMul", value, net("Transpose", shares, perm=[0, 1, 3, 2], to="back"), to="mixed")
    return net("Reshape", mixed, net.ints(1, _HEADS * _VALUES, *((12, 10) if pixels > 1 else (1, 1))), to="image")


def _model(*, alone: bool = False, kernel: int = 1) -> Model:
    net = Net()
    source = net("GlobalAveragePool", "x", to="mean") if alone else "x"
    mixed = net("HardSwish", _attention(net, source, 1 if alone else _PIXELS, kernel), to="swish")
    return net.model([net("Conv", mixed, net.normal(8, _HEADS * _VALUES, 1, 1), to="projected")])


@pytest.mark.parametrize(
    "options", ["chip: bm1684x", "chip: bm1688", "chip: cv181x", "chip: bm1684x, precision: f16"]
)
@pytest.mark.parametrize("alone", [False, True], ids=["image", "one pixel"])
def test_a_convolution_that_gives_query_key_and_value_is_built(
    tpu_toolchain: object, tmp_path: Path, options: str, alone: bool
) -> None:
    """In INT8 the compiler ended, as it had no thresholds of the three that it makes of it."""
    report = built(_model(alone=alone), options, tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)
    assert report["verify"]["float_vs_program"]["cosine"] > 0.99


@pytest.mark.parametrize("kernel", [1, 3])
def test_it_is_written_as_three(kernel: int) -> None:
    graph = parted_convolutions(lower(_model(kernel=kernel), "net", "bm1684x"))
    parts = [op for op in graph.ops if isinstance(op, TpuConv) and op.weight.shape[2] == kernel][:3]
    assert [len(op.weight) for op in parts] == [_HEADS * _KEYS, _HEADS * _KEYS, _HEADS * _VALUES]
    assert [op.range_of for op in parts] == ["query", "key", "value"]
    assert not any(isinstance(op, TpuSlice) for op in graph.ops)
    assert "qkv" not in graph.tensors


@pytest.mark.parametrize(
    ("ends", "axis", "group", "outputs"),
    [
        ((8, 16), 2, 1, ()),  # two parts
        ((4, 8, 12), 2, 1, ()),  # not all of it
        ((1, 2), 1, 1, ()),  # heads
        ((4, 8, 16), 2, 2, ()),
        ((4, 8, 16), 2, 1, ("heads",)),
    ],
)
def test_others_stay_as_they_are(ends: tuple[int, ...], axis: int, group: int, outputs: tuple[str, ...]) -> None:
    net = Net()
    weight = net.normal(_HEADS * _OF_A_HEAD, 8 // group, 1, 1)
    joined = net("Conv", "x", weight, group=group, to="qkv")
    heads = net("Reshape", joined, net.ints(1, _HEADS, _OF_A_HEAD, _PIXELS), to="heads")
    parts = [
        net("Relu", net("Slice", heads, net.ints(start), net.ints(end), net.ints(axis)))
        for start, end in zip((0, *ends), ends, strict=False)
    ]
    graph = lower(net.model([*parts, *outputs]), "net", "bm1684x")
    assert parted_convolutions(graph) is graph
