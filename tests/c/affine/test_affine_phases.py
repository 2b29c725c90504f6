"""A transposed convolution as ordinary ones: their rows and columns side by side are the output itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_affine_ops import RandomOps

from nnkit.c.affine.phases import row_phases
from nnkit.program import Window
from nnkit.program.affine import AffineConv, AffineProgram
from nnkit.program.formats import Affine
from nnkit.program.inputs import stress_inputs
from nnkit.simulate import simulate


def transposed(
    seed: int, window: Window, *, output_padding: int = 0, channels: int = 5, bits: int = 8
) -> AffineProgram:
    """One layer from 3 channels of 4x6 pixels; weights have zero points of their own in every channel."""
    draw = RandomOps(seed)
    source = draw._input((3, 4, 6), bits)
    height, width = (
        (size - 1) * stride + span - before - after + output_padding
        for size, stride, span, before, after in (
            (4, window.stride_h, window.span_h, window.pad_top, window.pad_bottom),
            (6, window.stride_w, window.span_w, window.pad_left, window.pad_right),
        )
    )
    output = draw._tensor((channels, height, width), bits)
    weight = draw.rng.integers(-100, 101, (3, channels, window.kernel_h, window.kernel_w)).astype(np.int8)
    zeros = tuple(int(zero) for zero in draw.rng.integers(-9, 10, channels))
    draw.ops.append(
        AffineConv(
            **draw._fields((source,), output),
            weight=weight,
            weight_format=Affine(8, (0.01,) * channels, zeros, 1, signed=True),
            bias=draw.rng.integers(-500, 500, channels).astype(np.int32),
            window=window,
            groups=1,
            pad_value=source.zero_point,
            transposed=True,
            requantize=draw._stage(draw.rng.uniform(0.001, 0.004, channels) / (1 if bits == 8 else 64), output),
        )
    )
    return draw.program("net")


WINDOWS = [
    Window(2, 2, 2, 2),
    Window(3, 3, 2, 2, 1, 1, 1, 1, 1, 1),
    Window(4, 4, 2, 2, 1, 1, 1, 1, 1, 1),
    Window(3, 5, 1, 1, 1, 1, 2, 0, 0, 4),
    Window(2, 3, 3, 3),  # a row in three has no tap
    Window(5, 1, 3, 2, 1, 1, 4, 0, 0, 0),
]


@pytest.mark.parametrize("window", WINDOWS)
def test_phases_are_the_transposed_convolution(window: Window) -> None:
    more = 1 if window == WINDOWS[1] else 0
    program = transposed(1, window, output_padding=more)
    (op,) = program.ops
    assert isinstance(op, AffineConv)
    source, output = program.tensors[op.inputs[0]], program.tensors[op.output]
    phases = row_phases(op, source, output)
    if output.shape[2] % window.stride_w:
        assert phases is None
        return
    assert phases is not None
    given = stress_inputs(program, 1)[0]
    rows = np.full(output.shape, -999)
    for phase in phases:
        count, down, across = phase.output.shape
        whole = replace(phase.output, shape=(count, *phase.op.window.output_hw(4, 6)))  # may have rows more
        tensors = {**program.tensors, op.output: whole}
        part = simulate(replace(program, ops=(phase.op,), tensors=tensors), given)[op.output][:, :down, :across]
        columns = part.reshape(window.stride_w, output.shape[0], part.shape[1], -1).transpose(1, 2, 3, 0)
        rows[:, phase.first_row :: window.stride_h] = columns.reshape(output.shape[0], part.shape[1], -1)
    assert np.array_equal(rows, simulate(program, given)[op.output])


def test_groups_and_taps_that_lie_apart_have_none() -> None:
    for window in (Window(3, 3, 2, 2, 2, 1), Window(3, 3, 2, 2, 1, 1)):
        program = transposed(2, window)
        (op,) = program.ops
        assert isinstance(op, AffineConv)
        op = replace(op, groups=3, weight=op.weight[:, :1]) if window.dilation_h == 1 else op
        assert row_phases(op, program.tensors[op.inputs[0]], program.tensors[op.output]) is None
