"""The arithmetic of INT8 against exact fractions, and thresholds that the compiler has nothing to change in."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ModelError
from nnkit.program import Window
from nnkit_tpu.arithmetic import apply, joint_multipliers, multiplier_and_shift, round_half_away
from nnkit_tpu.integer_parameters import Requant
from nnkit_tpu.program import TpuActivation, TpuBinary, TpuConcat, TpuGraph, TpuPool, TpuTensor
from nnkit_tpu.thresholds import thresholds
from nnkit_tpu.toolchain import Toolchain


def _half_up(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


def _half_away(value: Fraction) -> int:
    return _half_up(value) if value >= 0 else -_half_up(-value)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 2**31 - 1), st.integers(0, 30))
def test_requantisation_is_the_rounded_fraction(acc: int, multiplier: int, shift: int) -> None:
    real = Fraction(acc * multiplier, 2**shift)
    for rounding, expected in (("half_up", _half_up(real)), ("half_away", _half_away(real)), ("down", floor(real))):
        stage = Requant(np.array([multiplier]), np.array([shift]), rounding)  # type: ignore[arg-type]
        assert int(apply(stage, np.array([[acc]]))[0, 0]) == expected


@given(st.integers(-(2**31), 2**31 - 1), st.integers(2**30, 2**31 - 1), st.integers(0, 15))
def test_two_steps_round_twice(acc: int, multiplier: int, rest: int) -> None:
    first = _half_up(Fraction(acc * multiplier, 2**31))
    stage = Requant(np.array([multiplier]), np.array([31 + rest]), "two_steps")
    assert int(apply(stage, np.array([[acc]]))[0, 0]) == _half_away(Fraction(first, 2**rest))


@given(st.floats(1e-6, 0.99), st.sampled_from([8, 32]))
def test_no_other_multiplier_and_shift_is_closer(factor: float, bits: int) -> None:
    multiplier, shift = multiplier_and_shift(factor, bits)
    exact = Fraction(float(np.float32(factor)))
    error = abs(Fraction(int(multiplier[0])) / Fraction(2) ** int(shift[0]) - exact)
    limit = 127 if bits == 8 else 2**31 - 1
    for n in range(31):
        m = _half_away(exact * 2**n)
        if m < limit:
            other = abs(Fraction(m, 2**n) - exact)
            assert float(np.float32(float(error))) <= float(np.float32(float(other)))


def test_channels_are_rescaled_on_their_axis() -> None:
    stage = Requant(np.array([1, 3]), np.array([0, 1]), "half_up")
    acc = np.arange(8).reshape(1, 2, 4)
    assert np.array_equal(apply(stage, acc), [[[0, 1, 2, 3], [6, 8, 9, 11]]])
    assert np.array_equal(apply(stage, np.array([[5, 5]]), -1), [[5, 8]])


def test_multipliers_that_share_a_shift() -> None:
    # 0.62507 * 128 = 80.009, 0.56959 * 128 = 72.908, cut off; twice as much would pass 127.
    assert joint_multipliers(np.array([0.62507, 0.56959])) == ((80, 72), 7)


def test_halves_are_rounded_away_from_zero() -> None:
    values = np.array([-2.5, -1.5, -0.5, 0.49999999999999994, 0.5, 1.5, 2.5])
    assert round_half_away(values).tolist() == [-3, -2, -1, 0, 1, 2, 3]


def _graph() -> TpuGraph:
    shape = (1, 4, 8, 8)
    names = ("x", "r", "p", "s", "cat")
    tensors = {name: TpuTensor(name, shape) for name in names}
    window = Window(kernel_h=1, kernel_w=1)
    ops = (
        TpuActivation(name="r", inputs=("x",), output="r", function="tanh"),
        TpuPool(name="p", inputs=("r",), output="p", function="max", window=window),
        TpuActivation(name="s", inputs=("x",), output="s", function="sigmoid"),
        TpuConcat(name="cat", inputs=("p", "s"), output="cat", axis=1),
    )
    return TpuGraph("g", tensors, ops, ("x",), ("cat",))


def _ranges(**limits: tuple[float, float]) -> dict[str, ValueRange]:
    return {name: ValueRange(low, high, low, high) for name, (low, high) in limits.items()}


def test_what_is_moved_and_joined_shares_a_threshold() -> None:
    ranges = _ranges(x=(-3, 3), r=(-0.9, 0.8), p=(-0.5, 0.8), s=(0.1, 0.9), cat=(-0.5, 0.9))
    found = thresholds(_graph(), ranges, always_signed=False)
    assert {found[name] for name in ("r", "p", "cat")} == {found["cat"]}
    assert (found["cat"].value, found["cat"].signed) == (0.9, True)
    assert found["x"].value == 3.0
    # The compiler takes a sigmoid to reach 1, whatever was seen: it is rescaled into the concatenation.
    assert (found["s"].value, found["s"].signed) == (1.0, False)


def test_a_part_that_others_read_keeps_its_own_threshold() -> None:
    graph = _graph()
    also_out = TpuGraph(graph.name, graph.tensors, graph.ops, graph.inputs, ("cat", "s"))
    ranges = _ranges(x=(-3, 3), r=(0.0, 0.8), p=(0.0, 0.8), s=(0.1, 0.9), cat=(0.0, 0.9))
    found = thresholds(also_out, ranges, always_signed=False)
    assert found["s"].value == 1.0
    assert found["cat"].value == 0.9
    assert not found["cat"].signed
    assert thresholds(also_out, ranges, always_signed=True)["cat"].signed


def test_a_value_without_a_range_is_named() -> None:
    with pytest.raises(ModelError, match=r"2 values have no finite range: p, cat"):
        thresholds(_graph(), _ranges(x=(0, 1), r=(0, 1), s=(0, 1)), always_signed=False)


def test_a_concatenation_of_unsigned_parts_is_unsigned_though_it_is_joined_with_a_signed_one() -> None:
    # The compiler gives a concatenation's threshold to its parts where these have one sign. A product of unsigned
    # numbers cannot be signed: the compiler's kernel asserts that.
    shape = (1, 2, 4, 4)
    names = ("x", "s", "scaled", "other", "inner", "t", "outer")
    tensors = {name: TpuTensor(name, shape) for name in names}
    anchors = np.array([1.0, 2.0], np.float32).reshape(1, 2, 1, 1)
    ops = (
        TpuActivation(name="s", inputs=("x",), output="s", function="sigmoid"),
        TpuBinary(name="scaled", inputs=("s",), output="scaled", function="mul", constant=anchors),
        TpuActivation(name="other", inputs=("x",), output="other", function="sigmoid"),
        TpuConcat(name="inner", inputs=("scaled", "other"), output="inner", axis=1),
        TpuActivation(name="t", inputs=("x",), output="t", function="tanh"),
        TpuConcat(name="outer", inputs=("inner", "t"), output="outer", axis=1),
    )
    graph = TpuGraph("g", tensors, ops, ("x",), ("outer",))
    ranges = _ranges(x=(-3, 3), s=(0, 1), scaled=(0, 2), other=(0, 1), inner=(0, 2), t=(-1, 1), outer=(-1, 2))
    chosen = thresholds(graph, ranges, always_signed=False)
    assert not chosen["scaled"].signed
    assert not chosen["inner"].signed
    assert chosen["outer"].signed


def test_large_weights_that_cancel_out_are_cut_on_the_cv18xx(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """The compiler makes no factor above 0.999999."""
    net = Net()
    weight = net.random.normal(0, 0.5, (8, 8, 1, 1))
    weight[1] = weight[0]
    alike = net("Relu", net("Conv", "x", net.constant(weight)))
    weight = net.random.normal(0, 0.5, (4, 8, 1, 1))
    weight[0, :2, 0, 0] = 900.0, -899.5
    report = built(net.model([net("Conv", alike, net.constant(weight), to="last")]), "chip: cv181x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
