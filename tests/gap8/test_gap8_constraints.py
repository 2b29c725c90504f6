"""The limits of GAP8's kernels: what lies within, what lies beyond, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from program_builder import ProgramBuilder

from nnkit.errors import ModelError
from nnkit.graph.tags import NO_TAGS
from nnkit.program import Conv2d, Fixed, Pool, Program
from nnkit.quantize.float_program import FloatMaxPool, FloatProgram
from nnkit_gap8.layer_limits import check_layers
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


@pytest.mark.parametrize(
    ("side", "kernel", "stride"), [(40, 31, 16), (40, 40, 1), (40, 32, 1), (40, 2, 17), (4098, 2, 1)]
)
def test_a_lowered_network_is_told_what_its_program_would_be(side: int, kernel: int, stride: int) -> None:
    """Before anything is calibrated, in the same words."""
    net = ProgramBuilder()
    program = net.build(net.pool(net.input(1, side, side), kernel, stride))
    pool = program.ops[0]
    assert isinstance(pool, Pool)
    layer = FloatMaxPool(
        name=pool.name,
        inputs=pool.inputs,
        output=pool.output,
        range_value=pool.output,
        tags=NO_TAGS,
        window=pool.window,
    )
    layers = FloatProgram((layer,), {name: tensor.shape for name, tensor in program.tensors.items()})
    later = sooner = ""
    try:
        Gap8Target().check(program, Gap8Options())
    except ModelError as error:
        later = str(error).replace("(pool)", "(MaxPool)")
    try:
        check_layers(layers, Gap8Target().documentation)
    except ModelError as error:
        sooner = str(error)
    assert sooner == later
    assert bool(sooner) == (kernel == 32 or stride == 17 or side == 4098)
