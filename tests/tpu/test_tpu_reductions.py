"""Reductions over axes on the cv18xx: in integers, equal to the chip model's in every value, and in steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tpu_net
from tpu_build import built, refuted
from tpu_net import IMAGE, Net

from nnkit.errors import ModelError
from nnkit_tpu import kernels
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import TpuLayerNorm, TpuReduce, TpuReshape
from nnkit_tpu.reductions import fits_a_lane, over_neighbours, reduced_in_integers, rows_fit_a_lane
from nnkit_tpu.toolchain import Toolchain


def test_they_are_computed_in_integers_as_predicted(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    net = Net()
    data = net("Conv", "x", net.normal(8, 8, 1, 1))
    outputs = []
    for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"):
        for axes in ((1,), (3,), (1, 2), (1, 2, 3), (1, 3)):
            name = f"{op}_{''.join(map(str, axes))}"
            outputs.append(net(op, data, net.ints(*axes), keepdims=len(axes) % 2, to=name))
    report = built(net.model(outputs), "chip: cv181x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert all("_13" in name for name in report["details"]["layers_within_a_bound"])


@pytest.mark.parametrize("keep_dims", [True, False])
@pytest.mark.parametrize("function", ["mean", "sum", "max", "min", "l2"])
def test_steps_over_neighbouring_axes_give_what_the_whole_does(function: str, keep_dims: bool) -> None:
    shape = (1, 3, 4, 5, 2)
    op = TpuReduce(name="y", inputs=("x",), output="y", function=function, axes=(1, 3, 4), keep_dims=keep_dims)  # type: ignore[arg-type]
    steps = over_neighbours(op, shape)
    assert [step.axes for step, _ in steps] == [(3, 4), (1,)]
    assert steps[-1][0].output == "y"
    x = value = np.random.default_rng(1).normal(0, 1, shape)
    for step, made in steps:
        value = kernels.reduced(value, step)
        assert value.shape == made
    np.testing.assert_allclose(value, kernels.reduced(x, op))
    assert over_neighbours(TpuReduce(**{**vars(op), "axes": (1, 2)}), shape) == []


def test_only_axes_that_fit_half_of_a_lane_are_taken_together_in_integers() -> None:
    def has(shape: tuple[int, ...], *axes: int, chip: str = "cv181x", function: str = "mean") -> bool:
        op = TpuReduce(name="y", inputs=("x",), output="y", function=function, axes=axes, keep_dims=True)  # type: ignore[arg-type]
        return reduced_in_integers(op, shape, chip)

    assert has((1, 16, 16, 32), 1, 2, 3)
    assert not has((1, 64, 16, 16), 1, 2, 3)
    assert has((1, 64, 56, 56), 1, 2)
    assert not has(IMAGE, 1, chip="bm1684x")
    assert not has(IMAGE, 1, function="l2")


def test_over_axes_of_one_they_are_reshapes() -> None:
    net = Net()
    mean = net("ReduceMean", net("Reshape", "rows", net.ints(1, 6, 1, 20)), net.ints(2), keepdims=0)
    (_, last) = lower(net.model([mean]), "net").ops
    assert isinstance(last, TpuReshape)


@pytest.mark.parametrize(
    ("shape", "axis", "mode", "fits"),
    [
        ((1, 2, 16368), 2, "INT8", True),
        ((1, 2, 16369), 2, "INT8", False),
        ((1, 2, 8184), 2, "BF16", True),
        ((1, 2, 8185), 2, "BF16", False),
        ((1, 4079), 1, "INT8", False),  # a prime number
        ((1, 8158), 1, "INT8", False),  # twice that
        ((1, 4063, 2), 1, "INT8", True),
        ((1, 4064, 2), 1, "INT8", False),
    ],
)
def test_axes_that_the_compiler_cannot_reduce(shape: tuple[int, ...], axis: int, mode: str, fits: bool) -> None:
    """As the compiler took them, ended, or gave other values than the mean or maximum."""
    op = TpuReduce(name="y", inputs=("x",), output="y", function="mean", axes=(axis,), keep_dims=True, mode=mode)  # type: ignore[arg-type]
    assert fits_a_lane(op, shape, "cv181x") == fits


@pytest.mark.parametrize(("last", "parameters"), [(3960, 2), (5280, 1), (7920, 0)])
def test_rows_that_the_compiler_cannot_normalise(last: int, parameters: int) -> None:
    scale, bias = (np.ones(1) if parameters > count else None for count in (0, 1))
    op = TpuLayerNorm(name="y", inputs=("x",), output="y", axis=1, epsilon=1e-5, scale=scale, bias=bias)
    assert [rows_fit_a_lane(op, (1, size), "cv181x") for size in (last, last + 8, 4079)] == [True, False, False]


def test_too_long_axes_are_refused_by_name(tmp_path: Path) -> None:
    net = Net()
    wide = net("Pad", net("Sigmoid", "rows"), net.ints(0, 0, 0, 0, 0, 16980), to="wide")
    with pytest.raises(ModelError, match="17000 values") as refused:
        built(net.model([net("ReduceMax", wide, net.ints(2), to="largest")]), "chip: cv181x", tmp_path)
    assert "largest" in str(refused.value)
    assert "two" in refused.value.remedy


@pytest.mark.parametrize("function", ["ReduceMean", "ReduceSum"])
@pytest.mark.parametrize("values", [256, 500])
def test_many_like_values_add_up(
    values: int, function: str, tpu_toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In F16 the bm1688 rounds the sum behind each: of 500 like ones it was up to 4 thousandths off."""
    monkeypatch.setattr(tpu_net, "IMAGE", (1, 64, values, 1))
    net = Net()
    numbers = net.constant(np.exp(np.random.default_rng(values).uniform(-1, 1, (64, 1, 1))))
    result = net(function, net("Add", "x", numbers), net.ints(2), keepdims=1)
    report = built(net.model([result]), "chip: bm1688, precision: f16", tmp_path, numbers=1)  # zeros
    assert refuted(report) == []
