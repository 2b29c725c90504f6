"""The sums that a report states: an input that reaches them exists, and none goes beyond."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from program_builder import ProgramBuilder
from random_affine_ops import RandomOps

from nnkit.program import Conv2d, Window
from nnkit.program.affine import AffineConv
from nnkit.quantize.accumulator_sums import accumulator_sums


@pytest.mark.parametrize("groups", [1, 2])
def test_of_a_fixed_convolution(groups: int) -> None:
    rng = np.random.default_rng(groups)
    builder = ProgramBuilder()
    builder.conv(builder.input(4, 3, 3), 6, 3, groups=groups)
    conv = builder.ops[0]
    assert isinstance(conv, Conv2d)
    weight = rng.integers(-900, 900, conv.weight.shape).astype(np.int16)
    stage = replace(conv.stage, shift=5)
    conv = replace(conv, weight=weight, bias=rng.integers(-99, 99, 6).astype(np.int32), bias_shift=3, stage=stage)
    builder.ops[0] = conv
    sums = accumulator_sums(conv, builder.build())
    assert sums is not None
    assert (sums["low"], sums["high"], sums["rounding"]) == (-(1 << 15), (1 << 15) - 1, 16)
    _reached(sums, weight, groups, lambda x: conv.accumulators(x).reshape(-1))


@pytest.mark.parametrize("seed", range(4))
def test_of_an_affine_convolution(seed: int) -> None:
    ops = RandomOps(seed)
    ops.conv()
    program = ops.program("one")
    conv = program.ops[0]
    assert isinstance(conv, AffineConv)
    source = program.tensors[conv.inputs[0]]
    conv = replace(conv, window=Window(*conv.weight.shape[2:]))
    sums = accumulator_sums(conv, program)
    assert sums is not None
    shape = (len(conv.weight), 1, 1)
    _reached(
        sums,
        conv.weight,
        conv.groups,
        lambda x: conv.accumulators(x[None] + source.zero_point, source, shape).reshape(-1),
    )


def _reached(sums, weight, groups, accumulate) -> None:  # type: ignore[no-untyped-def]
    """The stated channels' bounds are what inputs by the signs of their weights give, and no other's are wider."""
    low, high = sums["low"], sums["high"]
    per_group = len(weight) // groups
    reached = []
    for channel in range(len(weight)):
        inputs = weight.shape[1]
        first = channel // per_group * inputs
        signs = np.zeros((inputs * groups, *weight.shape[2:]), np.int64)
        signs[first : first + inputs] = weight[channel]
        most, least = (
            int(accumulate(np.where(s > 0, high, np.where(s < 0, low, 0)))[channel]) for s in (signs, -signs)
        )
        reached.append((most, least))
    stated = {
        each["channel"]: (
            each["positive"] * high + each["negative"] * low + each["start"],
            each["positive"] * low + each["negative"] * high + each["start"],
        )
        for each in sums["channels"]
    }
    assert {channel: reached[channel] for channel in stated} == stated
    assert max(most for most, _ in reached) == max(most for most, _ in stated.values())
    assert min(least for _, least in reached) == min(least for _, least in stated.values())
