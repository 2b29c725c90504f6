"""Depthwise layers that write over their input: the values of plain loops in less L2, for any number of cores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from program_builder import ProgramBuilder

from nnkit.c.fixed.catalogue import operator_c
from nnkit.c.fixed.machine import CoreMachine
from nnkit.errors import InternalError
from nnkit.memory.checker import check_plan
from nnkit.memory.needs import KernelNeeds, overwriting_chunks
from nnkit.program import Conv2d, Fixed, OpBase, Program, Window
from nnkit_gap8 import loads
from nnkit_gap8.checked_plan import checked_plan
from nnkit_gap8.options import Gap8Options
from nnkit_gap8.runners import HostRunner, execute_on_host
from nnkit_gap8.steps import address
from tests.c.fixed import plain_reference
from tests.c.fixed.kernel_check import SANITIZE, needs_gcc
from tests.c.fixed.programs import S8, S16, U8, Builder, conv, random_values
from tests.gap8.artifacts import write_artifact

OPTIONS = Gap8Options(stripes="never")


def bottleneck(stride: int, x: Fixed = S16, y: Fixed = S16, channels: int = 46, side: int = 12) -> Program:
    """1x1 to many channels, depthwise, 1x1 back: an inverted residual's layers."""
    rng, builder = np.random.default_rng(stride), Builder()
    wide = conv(rng, builder, builder.input("x", (3, side, side), S16), "wide", channels, x, Window(1, 1))
    window = Window(3, 3, stride, stride, 1, 1, 1, 1, 1 if stride == 1 else 0, 1 if stride == 1 else 0)
    deep = conv(rng, builder, wide, "deep", channels, y, window, groups=channels)
    return builder.program(conv(rng, builder, deep, "narrow", 5, S16, Window(1, 1)))


@needs_gcc
@pytest.mark.parametrize(
    ("stride", "x", "y", "ends"),
    [(1, S16, S16, {12}), (2, S16, S16, {1, 4, 12}), (2, S16, S8, {1, 8, 12}), (1, U8, S8, {12})],
)
def test_the_c_computes_what_plain_loops_do(stride: int, x: Fixed, y: Fixed, ends: set[int], tmp_path: Path) -> None:
    """A plane of 12x12 has room for four of 6x6: block 0, then 1 to 3, then 4 to 11, or fewer at once."""
    program = bottleneck(stride, x, y)
    plan = checked_plan(program, OPTIONS)
    assert address(plan, "deep") == address(plan, "wide")
    assert ends <= {chunk.first_block + chunk.blocks for chunk in plan.chunks if chunk.op == "deep_layer"}
    sample = {"x": random_values(np.random.default_rng(4), program.tensors["x"])}
    expected = plain_reference.run(program, sample)
    folder = write_artifact(program, tmp_path, plan)
    binary = HostRunner("gcc", SANITIZE).compile(folder, tmp_path, trace=True)
    for parts in (1, 3, 8):
        (result,) = execute_on_host(binary, folder, program, [sample], parts=parts, trace=True)
        for name in ("deep", "narrow"):
            np.testing.assert_array_equal(result.tensors[name], expected[name])


@pytest.mark.parametrize(("blocks", "in_bytes", "out_bytes"), [(24, 18, 18), (24, 16, 4), (7, 10, 9), (30, 9, 2)])
def test_cores_may_take_the_blocks_of_a_chunk_in_any_order(blocks: int, in_bytes: int, out_bytes: int) -> None:
    """Byte by byte: a channel's input must still be there when its turn comes, whatever others have written."""
    rng = np.random.default_rng(blocks)
    memory = np.repeat(np.arange(4 * blocks), in_bytes)
    first = 0
    for count in overwriting_chunks(blocks, in_bytes, out_bytes):
        for block in first + rng.permutation(count):
            for channel in range(4 * block, 4 * block + 4):
                assert (memory[channel * in_bytes : (channel + 1) * in_bytes] == channel).all()
                memory[channel * out_bytes : (channel + 1) * out_bytes] = 1000 + channel
        first += count
    assert first == blocks
    assert (memory[: 4 * blocks * out_bytes] == np.repeat(1000 + np.arange(4 * blocks), out_bytes)).all()


def test_the_widest_layer_of_a_mobile_network() -> None:
    """MobileNetV2 at 96x96: 96 channels of 48x48 in 16 bits, 442,368 bytes, and 110,592 of its result."""
    net = ProgramBuilder()
    x = net.input(96, 48, 48)
    program = net.build(net.conv(x, 96, 3, stride=2, pad=1, groups=96))
    plan = checked_plan(
        program, Gap8Options.model_validate({"memory": {"l2": "4MiB", "larger_chip": True}, "stripes": "never"})
    )
    activations = [buffer for buffer in plan.buffers.values() if buffer.kind == "activation"]
    assert max(buffer.offset_bytes + buffer.size_bytes for buffer in activations) == 442_368
    weights = max(chunk.size_bytes for chunk in plan.chunks)
    assert plan.regions["l2"].peak_bytes <= 442_368 + weights + 16 + 1024


def test_a_band_that_would_read_rows_again_lies_apart() -> None:
    program = bottleneck(1, side=20)
    deep = program.ops[1]
    roomy, small = CoreMachine(8, 64 << 10), CoreMachine(8, 4 << 10)
    assert operator_c(deep).needs(deep, program, roomy).reads_planes_first
    assert not operator_c(deep).needs(deep, program, small).reads_planes_first


def needs_of(program: Program, in_order: bool) -> KernelNeeds | object:
    def needs(op: OpBase) -> KernelNeeds:
        known = operator_c(op).needs(op, program, OPTIONS.core_machine())
        return replace(known, reads_planes_first=known.reads_planes_first and in_order)

    return needs


def test_a_kernel_that_does_not_promise_it_is_refused() -> None:
    program = bottleneck(2)
    plan = checked_plan(program, OPTIONS)
    check_plan(program, plan, needs_of(program, in_order=True))  # type: ignore[arg-type]
    with pytest.raises(InternalError, match="is written over 'wide' while it is read"):
        check_plan(program, plan, needs_of(program, in_order=False))  # type: ignore[arg-type]


def test_a_chunk_that_other_cores_would_disturb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "overwriting_chunks", lambda blocks, *_: [blocks])
    with pytest.raises(InternalError, match="channels of 'wide' that other cores read"):
        checked_plan(bottleneck(2), OPTIONS)


def test_what_gains_nothing_lies_apart() -> None:
    """Where another layer has the peak, no chunk is cut for it."""
    rng, builder = np.random.default_rng(1), Builder()
    wide = conv(rng, builder, builder.input("x", (3, 24, 24), S16), "wide", 64, S16, Window(2, 2, 2, 2))
    deep = conv(rng, builder, wide, "deep", 64, S16, Window(3, 3, 2, 2, 1, 1, 1, 1), groups=64)
    last = conv(rng, builder, deep, "last", 900, S16, Window(1, 1))
    program = builder.program(last)
    plan = checked_plan(program, OPTIONS)
    assert isinstance(program.ops[1], Conv2d)
    assert address(plan, "deep") != address(plan, "wide")
