"""The limits of GAP8's kernels: what lies within, what lies beyond, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from program_builder import ProgramBuilder

from nnkit.errors import ModelError
from nnkit.program import Conv2d, Fixed, Program
from nnkit_gap8.options import Gap8Options
from nnkit_gap8.target import Gap8Target


def conv(side: int, kernel: int, **window: int) -> Program:
    net = ProgramBuilder()
    return net.build(net.conv(net.input(1, side, side), 1, kernel, **window))


def refused(program: Program) -> str:
    with pytest.raises(ModelError) as caught:
        Gap8Target().check(program, Gap8Options())
    assert caught.value.remedy == "change the network or the options as said (docs/gap8.md has all limits)"
    return caught.value.reason


@pytest.mark.parametrize(("side", "kernel"), [(40, 31), (40, 40), (8, 3)])
def test_kernels_within_the_limit_or_as_large_as_the_input(side: int, kernel: int) -> None:
    Gap8Target().check(conv(side, kernel), Gap8Options())


def test_a_window_says_what_of_it_is_too_large() -> None:
    assert "found kernel 32x32\n    fix: use a smaller window" in refused(conv(40, 32))
    assert "found kernel 33x33, stride 17x17" in refused(conv(40, 33, stride=17))
    assert refused(conv(40, 2, stride=17)).endswith(
        "found stride 17x17\n    fix: use a smaller window; a pooling of a large map can be two poolings"
    )


def test_a_tensor_says_how_large_it_is() -> None:
    assert "conv0 (conv2d): tensors have at most 16,384 channels" in refused(conv(4097, 1))
    assert "found 1x4097x4097" in refused(conv(4097, 1))


def test_running_sums_are_kept_in_a_signed_tensor() -> None:
    program = conv(8, 3)
    op = program.ops[0]
    assert isinstance(op, Conv2d)
    tensor = replace(program.tensors[op.output], format=Fixed(16, 4, signed=False), low=0)
    unsigned = replace(
        program, ops=(replace(op, accumulate="running"),), tensors={**program.tensors, op.output: tensor}
    )
    assert "`running` accumulation keeps its sums in a signed tensor; found" in refused(unsigned)
