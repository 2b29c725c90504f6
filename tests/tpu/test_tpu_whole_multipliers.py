"""Multipliers of the cv18xx that are cut off: thresholds with which nothing is lost by that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.calibrate.stats import ValueRange
from nnkit.program import Window
from nnkit_tpu.arithmetic import joint_multipliers
from nnkit_tpu.program import TpuBinary, TpuConcat, TpuConv, TpuGraph, TpuOp, TpuPool, TpuTensor
from nnkit_tpu.thresholds import thresholds

_BRANCHES = 96


def _graph(*ops: TpuOp, outputs: tuple[str, ...]) -> TpuGraph:
    tensors = {name: TpuTensor(name, (1, 4, 8, 8)) for name in ("x", *(op.output for op in ops))}
    return TpuGraph("g", tensors, ops, ("x",), outputs)


def _conv(source: str, output: str) -> TpuConv:
    weight = np.ones((4, 4, 1, 1), np.float32)
    return TpuConv(name=output, inputs=(source,), output=output, weight=weight, bias=None, window=Window(1, 1))


def _add(output: str, *operands: str) -> TpuBinary:
    return TpuBinary(name=output, inputs=operands, output=output, function="add")


def _ranges(highest: Mapping[str, float]) -> dict[str, ValueRange]:
    return {name: ValueRange(-value, value, -value, value) for name, value in highest.items()}


def _kept(factors: NDArray[np.float64]) -> list[float]:
    """How much of what they multiply multipliers with one shift leave, computed as the compiler does, in float32."""
    multipliers, shift = joint_multipliers(factors.astype(np.float32))
    return [m / 2.0**shift / factor for m, factor in zip(multipliers, factors, strict=True)]


def test_averages_are_not_cut_off() -> None:
    mean = TpuPool(name="mean", inputs=("c",), output="mean", function="average", window=Window(7, 7))
    graph = _graph(_conv("x", "c"), mean, outputs=("mean",))
    gains = {}
    for always_signed in (True, False):
        chosen = thresholds(graph, _ranges({"x": 1.0, "c": 2.5, "mean": 0.7313}), always_signed=always_signed)
        (gains[always_signed],) = _kept(np.array([chosen["c"].value / chosen["mean"].value / 49]))
        assert 0.7313 <= chosen["mean"].value < 0.7313 * 65 / 64
    assert abs(gains[True] - 1.0) < 1e-5
    assert gains[False] < 0.999  # of the calibrated threshold


@pytest.mark.parametrize("small", [1.0, 0.9, 0.31, 0.04])
def test_sums_are_not_cut_off(small: float) -> None:
    """One behind another, as in residual blocks: what the first gives serves the second and a convolution, too."""
    first, second = _add("first", "a", "b"), _add("second", "c", "first")
    graph = _graph(_conv("x", "a"), _conv("x", "b"), first, _conv("first", "c"), second, outputs=("second",))
    highest = {"x": 1.0, "a": 2.5, "b": 2.5 * small, "first": 2.7313, "c": 3.1, "second": 4.377}
    chosen = thresholds(graph, _ranges(highest), always_signed=True)
    for total in (first, second):
        factors = np.array([chosen[name].value / chosen[total.output].value for name in total.inputs])
        assert np.allclose(_kept(factors), 1.0, rtol=1e-5)
    for name, value in highest.items():  # no coarser than that; b serves the sum alone
        assert value <= chosen[name].value < value * (1.5 if name == "b" else 33 / 32)


def test_an_operand_that_others_read_keeps_its_steps() -> None:
    total = _add("total", "a", "b")
    graph = _graph(_conv("x", "a"), _conv("x", "b"), total, _conv("b", "c"), outputs=("total", "c"))
    highest = {"x": 1.0, "a": 2.5, "b": 0.29, "total": 2.6, "c": 1.0}
    chosen = thresholds(graph, _ranges(highest), always_signed=True)
    assert chosen["b"].value == 0.29
    factors = np.array([chosen[name].value / chosen["total"].value for name in total.inputs])
    assert _kept(factors)[0] == pytest.approx(1.0, rel=1e-5)


def test_parts_of_a_concatenation_are_not_cut_off() -> None:
    joined = TpuConcat(name="joined", inputs=("a", "b"), output="joined", axis=1)
    graph = _graph(_conv("x", "a"), _conv("x", "b"), joined, _conv("b", "c"), outputs=("joined", "c"))
    highest = {"x": 1.0, "a": 2.7313, "b": 1.377, "joined": 2.7313, "c": 1.0}
    chosen = thresholds(graph, _ranges(highest), always_signed=True)
    assert _kept(np.array([chosen["b"].value / chosen["joined"].value])) == pytest.approx([1.0], rel=1e-5)
    assert 1.377 < chosen["b"].value < 1.377 * 65 / 64


def test_multipliers_of_averages_are_whole_in_float32_too(tpu_toolchain: object, tmp_path: Path) -> None:
    """Some fell short of the whole number by a last bit, and were cut off to one less."""
    net, random = Net(), np.random.default_rng(1)
    ends = []
    for index in range(_BRANCHES):
        scaled = net("Conv", "x", net.normal(4, 8, 1, 1, spread=float(np.exp(random.uniform(-2, 2)))))
        side = 2 if index % 2 else 4
        pooled = net("AveragePool", scaled, kernel_shape=[side, side], strides=[8, 8])
        ends.append(net("Relu", pooled, to=f"end{index}"))
    _built_as_predicted(net, ends, tmp_path)


def test_multipliers_of_sums_and_parts_are_whole_in_float32_too(tpu_toolchain: object, tmp_path: Path) -> None:
    net, random = Net(), np.random.default_rng(2)

    def scaled(source: str) -> str:
        weight = net.normal(8, 8, 1, 1, spread=float(np.exp(random.uniform(-2, 1))))
        value: str = net("Conv", source, weight)
        return value

    ends = []
    for index in range(_BRANCHES // 3):
        first = net("Add", scaled("x"), scaled("x"), to=f"first{index}")
        second = net("Relu", net("Add", scaled(first), first), to=f"second{index}")
        ends.append(net("Sub", scaled(second), second, to=f"end{index}"))
        part = scaled(second)
        ends += [net("Concat", part, second, axis=1, to=f"joined{index}"), net("Relu", part, to=f"part{index}")]
    _built_as_predicted(net, ends, tmp_path)


def _built_as_predicted(net: Net, outputs: list[str], folder: Path) -> None:
    report = built(net.model(outputs), "chip: cv181x", folder)
    assert report["status"] == "ok"
    assert not refuted(report)
    assert not report["details"]["prediction"]["disagreements"]
