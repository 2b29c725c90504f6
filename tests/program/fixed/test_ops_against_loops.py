"""The simulator against plain loops over Python integers, written from the definitions in nnkit.program.fixed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnkit.errors import UsageError
from nnkit.program import (
    Add,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Fixed,
    FusedPool,
    Leaky,
    OutputStage,
    Pool,
    Program,
    Tensor,
    Window,
)
from nnkit.simulate import Watch, simulate


def norm(x: int, n: int) -> int:
    return (x + (1 << (n - 1))) >> n if n else x


def wrap32(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def clamp(x: int, low: int, high: int) -> int:
    return max(low, min(high, x))


def stage(acc: int, s: OutputStage, form: Fixed, channel: int, bits: int = 32) -> int:
    rounded = acc + ((1 << (s.shift - 1)) if s.shift else 0)
    if bits == 32:
        rounded = wrap32(rounded)
    return after_norm(clamp(rounded >> s.shift, form.qmin, form.qmax), s, form, channel)


def after_norm(v: int, s: OutputStage, form: Fixed, channel: int) -> int:
    if s.leaky is not None and v < 0:
        slopes = s.leaky.slopes
        v = clamp(norm(v * int(slopes[channel % len(slopes)]), s.leaky.shift), form.qmin, form.qmax)
    return clamp(v, s.clip_min, s.clip_max)


def loop_conv(op: Conv2d, x: np.ndarray[Any, Any], form: Fixed) -> np.ndarray[Any, Any]:
    w = op.window
    height, width = x.shape[1:]
    outs, per_group = op.weight.shape[:2]
    out_h, out_w = w.output_hw(height, width)
    result = np.zeros((outs, out_h, out_w), dtype=object)
    for o, oy, ox in itertools.product(range(outs), range(out_h), range(out_w)):
        base = (o // (outs // op.groups)) * per_group
        per_channel = []
        for i in range(per_group):
            total = 0
            for ky, kx in itertools.product(range(w.kernel_h), range(w.kernel_w)):
                y = oy * w.stride_h - w.pad_top + ky * w.dilation_h
                z = ox * w.stride_w - w.pad_left + kx * w.dilation_w
                inside = 0 <= y < height and 0 <= z < width
                value = int(x[base + i, y, z]) if inside else op.pad_value
                total += value * int(op.weight[o, i, ky, kx])
            per_channel.append(total)
        if op.accumulate == "running":
            v = int(op.bias[o])
            for total in per_channel:
                rounding = (1 << (op.stage.shift - 1)) if op.stage.shift else 0
                step = wrap32((v << op.stage.shift) + total + rounding) >> op.stage.shift
                v = clamp(step, -(1 << (form.bits - 1)), (1 << (form.bits - 1)) - 1)
            result[o, oy, ox] = after_norm(v, op.stage, form, o)
        else:
            acc = (int(op.bias[o]) << op.bias_shift) + sum(per_channel)
            result[o, oy, ox] = stage(acc, op.stage, form, o, 64 if op.accumulator == "int64" else 32)
    return loop_pool(op.pool, result, form) if op.pool is not None else result


def loop_pool(pool: FusedPool, x: np.ndarray[Any, Any], form: Fixed) -> np.ndarray[Any, Any]:
    w = pool.window
    out_h, out_w = w.output_hw(*x.shape[1:])
    result = np.zeros((x.shape[0], out_h, out_w), dtype=object)
    for c, oy, ox in itertools.product(range(x.shape[0]), range(out_h), range(out_w)):
        values = []
        for ky, kx in itertools.product(range(w.kernel_h), range(w.kernel_w)):
            y, z = oy * w.stride_h - w.pad_top + ky, ox * w.stride_w - w.pad_left + kx
            if 0 <= y < x.shape[1] and 0 <= z < x.shape[2]:
                values.append(int(x[c, y, z]))
        if pool.kind == "max":
            result[c, oy, ox] = max(values)
        else:
            result[c, oy, ox] = clamp(norm(sum(values) * pool.multiplier, pool.shift), form.qmin, form.qmax)
    return result


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Conv2d, Tensor, Tensor, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    per_group = draw(st.integers(1, 3))
    outs = groups * draw(st.integers(1, 3))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    height = (kernel[0] - 1) * dilation[0] + draw(st.integers(2, 4))
    width = (kernel[1] - 1) * dilation[1] + draw(st.integers(2, 4))
    strides = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    window = Window(*kernel, *strides, *dilation, *pads)
    running = draw(st.booleans())
    in_form = Fixed(draw(st.sampled_from([8, 16])), 0, running or draw(st.booleans()))
    out_form = Fixed(draw(st.sampled_from([8, 16])), 0, True)
    weight_bits = draw(st.sampled_from([8, 16]))
    weight = Fixed(weight_bits, 0)
    leaky = None
    if draw(st.booleans()):
        leaky = Leaky(rng.integers(-32768, 32767, size=draw(st.sampled_from([1, outs]))).astype(np.int16), 15)
    # Shifts around the size of the sums, so that saturation is frequent.
    shift = draw(st.integers(0, 15 if running else weight_bits + in_form.bits - 4))
    low, high = sorted((draw(st.integers(out_form.qmin, 0)), draw(st.integers(0, out_form.qmax))))
    pool = None
    out_hw = window.output_hw(height, width)
    if draw(st.booleans()) and min(out_hw) >= 2:
        pool = draw(
            st.sampled_from([FusedPool("max", Window(2, 2, 1, 1)), FusedPool("average", Window(2, 2), 1 << 16, 18)])
        )
        out_hw = pool.window.output_hw(*out_hw)
    op = Conv2d(
        name="conv",
        inputs=("x",),
        output="y",
        weight=rng.integers(weight.qmin, weight.qmax + 1, size=(outs, per_group, *kernel)).astype(weight.dtype),
        weight_bits=weight_bits,
        weight_frac=0,
        bias=rng.integers(-(1 << 15), 1 << 15, size=outs).astype(np.int32),
        bias_frac=0,
        bias_shift=0 if running else draw(st.integers(0, 8)),
        window=window,
        stage=OutputStage(shift, low, high, leaky),
        groups=groups,
        pad_value=draw(st.integers(in_form.qmin, in_form.qmax)),
        accumulate="running" if running else "wide",
        accumulator="running16" if running else draw(st.sampled_from(["int32", "int64"])),
        pool=pool,
    )
    source = Tensor("x", (groups * per_group, height, width), in_form, in_form.qmin, in_form.qmax)
    result = Tensor("y", (outs, *out_hw), out_form, low, high)
    x = rng.integers(in_form.qmin, in_form.qmax + 1, size=source.shape)
    return op, source, result, x


def run(op: Any, tensors: list[Tensor], inputs: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    names = tuple(inputs)
    program = Program("test", {t.name: t for t in tensors}, (op,), names, (op.output,))
    return simulate(program, inputs)[op.output]


@given(convolutions())
def test_convolution_equals_loops(case: tuple[Conv2d, Tensor, Tensor, np.ndarray[Any, Any]]) -> None:
    op, source, result, x = case
    expected = loop_conv(op, x, result.fixed)
    np.testing.assert_array_equal(run(op, [source, result], {"x": x}), expected.astype(np.int64))


def test_products_beyond_float64_are_still_exact() -> None:
    """K * 2^30 above 2^53 must not go through float64; 2^23 + 1 taps of the extremes need it."""
    taps = (1 << 23) + 1
    form = Fixed(16, 0)
    op = Conv2d(
        name="conv",
        inputs=("x",),
        output="y",
        weight=np.full((1, taps, 1, 1), -32768, np.int16),
        weight_bits=16,
        weight_frac=0,
        bias=np.array([1], np.int32),
        bias_frac=0,
        bias_shift=0,
        window=Window(1, 1),
        stage=OutputStage(40, -32768, 32767),
        accumulator="int64",
    )
    x = np.full((taps, 1, 1), -32768, np.int16)
    tensors = [Tensor("x", x.shape, form, -32768, 32767), Tensor("y", (1, 1, 1), form, -32768, 32767)]
    assert int(run(op, tensors, {"x": x})[0, 0, 0]) == norm(taps * (1 << 30) + 1, 40)


@given(st.integers(0, 2**32), st.integers(1, 2), st.integers(1, 3), st.integers(0, 1), st.integers(1, 2))
def test_transposed_convolution_equals_loops(seed: int, stride: int, kernel: int, pad: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    per_in, per_out, height, width = 2, 3, 3, 4
    pad = min(pad, kernel - 1)
    out_h, out_w = (height - 1) * stride + kernel - 2 * pad, (width - 1) * stride + kernel - 2 * pad
    form = Fixed(16, 0)
    op = ConvTranspose2d(
        name="up",
        inputs=("x",),
        output="y",
        weight=rng.integers(-2000, 2000, size=(groups * per_in, per_out, kernel, kernel)).astype(np.int16),
        weight_bits=16,
        weight_frac=0,
        bias=rng.integers(-999, 999, size=groups * per_out).astype(np.int32),
        bias_frac=0,
        bias_shift=3,
        window=Window(kernel, kernel, stride, stride, 1, 1, pad, pad),
        stage=OutputStage(10, -32768, 32767),
        groups=groups,
    )
    x = rng.integers(-32768, 32768, size=(groups * per_in, height, width))
    acc = np.zeros((groups * per_out, out_h, out_w), dtype=object)
    for o in range(groups * per_out):
        acc[o] += int(op.bias[o]) << 3
    for i, o, iy, ix, ky, kx in itertools.product(
        range(groups * per_in), range(per_out), range(height), range(width), range(kernel), range(kernel)
    ):
        oy, ox = iy * stride - pad + ky, ix * stride - pad + kx
        if 0 <= oy < out_h and 0 <= ox < out_w:
            acc[(i // per_in) * per_out + o, oy, ox] += int(x[i, iy, ix]) * int(op.weight[i, o, ky, kx])
    expected = [[[stage(int(v), op.stage, form, 0) for v in row] for row in plane] for plane in acc]
    tensors = [Tensor("x", x.shape, form, -32768, 32767), Tensor("y", acc.shape, form, -32768, 32767)]
    np.testing.assert_array_equal(run(op, tensors, {"x": x}), np.array(expected))


def test_average_pool_counts_present_taps_by_hand() -> None:
    """2x2 window, stride 1, padded top and left by 1, padding excluded: hand-worked on [[4, 8], [12, 20]]."""
    form = Fixed(16, 0)
    op = Pool(
        name="pool",
        inputs=("x",),
        output="y",
        pool="average",
        window=Window(2, 2, 1, 1, 1, 1, 1, 1),
        multiplier=1 << 14,
        shift=16,
        multipliers_by_count=(0, 1 << 16, 1 << 15, 21845, 1 << 14),
        clip_min=-32768,
        clip_max=32767,
    )
    x = np.array([[[4, 8], [12, 20]]])
    tensors = [Tensor("x", (1, 2, 2), form, -32768, 32767), Tensor("y", (1, 2, 2), form, -32768, 32767)]
    assert run(op, tensors, {"x": x}).tolist() == [[[4, 6], [8, 11]]]


def test_add_and_concat_by_hand() -> None:
    form = Fixed(8, 0)
    tensors = [Tensor(name, (2, 1, 1), form, -128, 127) for name in ("a", "b", "y")]
    a, b = np.array([[[100]], [[-3]]]), np.array([[[60]], [[-5]]])
    add = Add(name="add", inputs=("a", "b"), output="y", shifts=(1, 0), stage=OutputStage(1, -100, 100))
    # (200 + 60 + 1) >> 1 = 130 -> 127 -> clip 100; (-6 - 5 + 1) >> 1 = -5
    assert run(add, tensors, {"a": a, "b": b}).ravel().tolist() == [100, -5]
    joined = [*tensors[:2], Tensor("y", (4, 1, 1), form, -128, 127)]
    concat = Concat(name="cat", inputs=("a", "b"), output="y", shifts=(0, 1))
    assert run(concat, joined, {"a": a, "b": b}).ravel().tolist() == [100, -3, 30, -2]


def test_watch_counts_wraps_and_saturation() -> None:
    form = Fixed(16, 0)
    op = Conv2d(
        name="conv",
        inputs=("x",),
        output="y",
        weight=np.full((1, 3, 1, 1), 32767, np.int16),
        weight_bits=16,
        weight_frac=0,
        bias=np.zeros(1, np.int32),
        bias_frac=0,
        bias_shift=0,
        window=Window(1, 1),
        stage=OutputStage(0, -32768, 32767),
    )
    tensors = {"x": Tensor("x", (3, 1, 2), form, -32768, 32767), "y": Tensor("y", (1, 1, 2), form, -32768, 32767)}
    program = Program("test", tensors, (op,), ("x",), ("y",))
    watch = Watch()
    x = np.array([[[32767, 1]], [[32767, 1]], [[32767, 1]]])
    simulate(program, {"x": x}, watch=watch)
    seen = watch.of("conv")
    assert seen.accumulator_max == 3 * 32767 * 32767
    assert (seen.wraps, seen.saturated, seen.values) == (1, 2, 2)


def test_bad_inputs_are_refused() -> None:
    form = Fixed(8, 0)
    tensors = {"x": Tensor("x", (2, 1, 1), form, -5, 5), "y": Tensor("y", (2, 1, 1), form, -5, 5)}
    op = Add(name="add", inputs=("x", "x"), output="y", shifts=(0, 0), stage=OutputStage(0, -5, 5))
    program = Program("test", tensors, (op,), ("x",), ("y",))
    for bad in ({}, {"x": np.zeros((3, 1, 1))}, {"x": np.full((2, 1, 1), 6)}):
        with pytest.raises(UsageError):
            simulate(program, bad)
