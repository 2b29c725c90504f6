"""The GAP8 memory planner: the published network's figures, random programs through the checker, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_builder import ProgramBuilder, block_needs, face_network
from random_programs import random_programs

from nnkit.errors import DoesNotFitError, ExitCode, InternalError
from nnkit.memory.checker import check_plan
from nnkit.memory.needs import KernelNeeds
from nnkit.memory.plan import MemoryPlan, Region
from nnkit.program import Concat, Op, Program, Reshape
from nnkit_gap8.loads import MemoryMachine
from nnkit_gap8.planner import plan


def machine(l2: int = 512 * 1024, *, context: int = 0, stack: int = 0, l1: int = 64 * 1024) -> MemoryMachine:
    return MemoryMachine(Region("l1", l1), Region("l2", l2), Region("l3", 8 * 1024 * 1024), context, stack)


FACE = face_network()
ACTIVATIONS = 276_768  # fire1's concatenation of 2 * 64 * 31 * 31 and its squeeze output of 16 * 31 * 31, int16
FIRE1_BLOCK = 4 * 4 + 4 * 16 * 9 * 2  # 4 int32 biases, 4 channels of 16 * 3 * 3 int16 weights


def test_the_published_network_needs_less_than_published() -> None:
    planned = plan(FACE, block_needs, machine(context=1024, stack=2048))
    check_plan(FACE, planned, block_needs)
    l2 = planned.regions["l2"]
    assert l2.peak_bytes <= 351_872
    assert l2.lower_bound_bytes == ACTIVATIONS + FIRE1_BLOCK + 1024 + 2048
    assert l2.peak_bytes <= 1.01 * l2.lower_bound_bytes
    assert planned.planner == "general"


def test_the_published_network_reaches_the_bound_when_instructions_may_be_spent() -> None:
    planned = plan(FACE, block_needs, machine(), repack_limit=0.05)
    check_plan(FACE, planned, block_needs)
    assert planned.regions["l2"].peak_bytes == ACTIVATIONS + FIRE1_BLOCK
    assert planned.regions["l2"].proven_optimal


def test_kernels_wishes_are_kept_where_nothing_may_be_spent() -> None:
    """min_blocks_per_chunk = 4: with no budget for gathering again, no chunk but a layer's last is smaller."""
    planned = plan(FACE, block_needs, machine(), repack_limit=0.0)
    assert planned.regions["l2"].peak_bytes == ACTIVATIONS + 4 * FIRE1_BLOCK
    for op in FACE.ops:
        sizes = [chunk.blocks for chunk in planned.chunks if chunk.op == op.name]
        if block_needs(op).repacks_input and len(sizes) > 1:
            assert min(sizes[:-1]) >= 4


def test_whole_layers_stream_where_they_fit_and_are_prefetched() -> None:
    planned = plan(FACE, block_needs, machine())
    chunks = {op.name: [c for c in planned.chunks if c.op == op.name] for op in FACE.ops}
    assert [len(chunks[f"fire{n}.expand3x3"]) for n in range(3, 9)] == [1, 1, 1, 1, 2, 2]
    assert len(chunks["fire5.squeeze"]) == 1
    ahead = sum(chunk.fetch_step < chunk.step for chunk in planned.chunks)
    assert ahead >= len(planned.chunks) // 2


def test_the_fused_pool_makes_the_pooled_tensor_the_output() -> None:
    planned = plan(FACE, block_needs, machine())
    assert planned.places["conv2_v"].size_bytes == 64 * 31 * 31 * 2


@pytest.mark.parametrize("planner", ["border", "general"])
def test_either_planner_alone(planner: Literal["border", "general"]) -> None:
    planned = plan(FACE, block_needs, machine(), planner=planner)
    check_plan(FACE, planned, block_needs)
    assert planned.planner == planner
    assert planned.regions["l2"].peak_bytes <= 351_872


def peak(program: Program, planner: Literal["auto", "border", "general"]) -> int:
    return plan(program, block_needs, machine(), planner=planner).regions["l2"].peak_bytes


@settings(max_examples=60)
@given(random_programs(chain_and_fire_only=True))
def test_the_general_planner_is_never_worse_than_the_border(program: Program) -> None:
    assert peak(program, "general") <= peak(program, "border")
    assert peak(program, "auto") == peak(program, "general")


@settings(max_examples=60)
@given(random_programs(), st.sampled_from([0.0, 0.01, 1.0]), st.integers(0, 100), st.integers(0, 100))
def test_random_programs_pass_the_checker(program: Program, limit: float, context: int, stack: int) -> None:
    planned = plan(program, block_needs, machine(context=context, stack=stack), repack_limit=limit)
    check_plan(program, planned, block_needs)
    use = planned.regions["l2"]
    assert use.lower_bound_bytes <= use.peak_bytes
    assert max(planned.step_peak_bytes("l2", step.index) for step in planned.steps) == use.peak_bytes


@settings(max_examples=60)
@given(random_programs())
def test_the_tightest_l2_that_a_plan_needs_is_enough(program: Program) -> None:
    """With L2 cut to the peak the plan still fits; below the lower bound it is refused, whatever is tried."""
    bound = plan(program, block_needs, machine()).regions["l2"]
    planned = plan(program, block_needs, machine(bound.peak_bytes))
    check_plan(program, planned, block_needs)
    with pytest.raises(DoesNotFitError):
        plan(program, block_needs, machine(bound.lower_bound_bytes - 1))


@settings(max_examples=60)
@given(random_programs())
def test_the_bound_counts_what_every_op_holds_at_once(program: Program) -> None:
    """An op's inputs and output, each byte once, must be in memory together: a floor for any plan."""
    planned = plan(program, block_needs, machine())
    for op in program.ops:
        held: set[tuple[str, int]] = set()
        for name in (*op.inputs, op.output):
            place = planned.places[name]
            held |= {(place.buffer, place.offset_bytes + i) for i in range(place.size_bytes)}
        block = max(block_needs(op).weight_block_bytes, default=0)
        assert len(held) + block <= planned.regions["l2"].lower_bound_bytes


def test_planning_is_deterministic() -> None:
    assert plan(FACE, block_needs, machine()) == plan(FACE, block_needs, machine())


def test_scratch_in_l2_is_planned_and_counted() -> None:
    def needs(op: Op) -> KernelNeeds:
        return replace(block_needs(op), scratch_bytes=(("l2", 1000),)) if op.kind == "conv2d" else KernelNeeds()

    planned = plan(FACE, needs, machine())
    check_plan(FACE, planned, needs)
    assert planned.regions["l2"].lower_bound_bytes == ACTIVATIONS + FIRE1_BLOCK + 1000
    assert planned.regions["l1"].peak_bytes == 0


def test_smaller_chunks_than_wished_are_the_last_resort() -> None:
    tight = plan(FACE, block_needs, machine(ACTIVATIONS + FIRE1_BLOCK), repack_limit=0.0)
    check_plan(FACE, tight, block_needs)
    assert any("smaller than the kernels wish" in note for note in tight.notes)


def refusal(program: Program, l2: int, **options: int) -> DoesNotFitError:
    with pytest.raises(DoesNotFitError) as caught:
        plan(program, block_needs, machine(l2, **options))
    assert caught.value.exit_code == ExitCode.MEMORY
    return caught.value


def test_too_small_an_l2_names_the_layers_and_their_excess() -> None:
    error = refusal(FACE, 64 * 1024)
    # fire1.expand3x3 by hand: both buffers and one block, less 65,536.
    assert f"fire1.expand3x3 needs {ACTIVATIONS + FIRE1_BLOCK:,} bytes" in error.reason
    assert f"{ACTIVATIONS + FIRE1_BLOCK - 65_536:,} too many" in error.reason
    assert "65,536 bytes of L2" in error.reason
    assert error.where == "fire1.expand3x3"


def test_remedies_say_what_int8_and_a_smaller_input_would_do() -> None:
    error = refusal(FACE, 200_000)
    # int8: half the activations, and a block of half the bytes as the estimate goes.
    assert f"int8 would need about {ACTIVATIONS // 2 + FIRE1_BLOCK // 2:,} bytes, which fits" in error.remedy
    assert "an input of about 96x96 (instead of 128x128) would fit" in error.remedy
    assert f"give L2 at least {ACTIVATIONS + FIRE1_BLOCK:,} bytes" in error.remedy


def test_an_unfused_pool_is_pointed_out() -> None:
    net = ProgramBuilder()
    x = net.conv(net.input(1, 32, 32), 16, name="wide")
    program = net.build(net.conv(net.pool(x, 2, 2, name="halve"), 4))
    error = refusal(program, 30_000)
    saved = (16 * 32 * 32 - 16 * 16 * 16) * 2
    assert f"fusing halve into wide would save {saved:,} bytes" in error.remedy


def test_following_the_advice_on_capacity_works() -> None:
    error = refusal(FACE, 64 * 1024, context=100, stack=300)
    advised = int(error.remedy.split("give L2 at least ")[1].split(" bytes")[0].replace(",", ""))
    plan(FACE, block_needs, machine(advised, context=100, stack=300))


def test_the_weight_budget_is_a_gate() -> None:
    total = plan(FACE, block_needs, machine(), weight_budget_bytes=1_500_000).l3_weight_bytes
    # 722,502 int16 weights, less the 1,  with int32 biases and the padding of conv1's 3 channels to 4.
    assert total == sum(sum(block_needs(op).weight_block_bytes) for op in FACE.ops)
    with pytest.raises(DoesNotFitError, match="100 more than the weight budget") as caught:
        plan(FACE, block_needs, machine(), weight_budget_bytes=total - 100)
    assert "int8 weights would take about" in caught.value.remedy
    assert caught.value.exit_code == ExitCode.MEMORY


def test_l1_must_hold_the_scratch() -> None:
    error = refusal(FACE, 512 * 1024, l1=1000)
    assert "fire8.expand3x3 needs 4,608 (3,608 too many)" in error.reason


def test_the_border_planner_alone_declines_a_residual() -> None:
    net = ProgramBuilder()
    x = net.conv(net.input(4, 8, 8), 4)
    program = net.build(net.conv(net.add(x, net.conv(net.conv(x, 4), 4)), 2))
    with pytest.raises(DoesNotFitError, match="border planner does not apply") as caught:
        plan(program, block_needs, machine(), planner="border")
    assert "general" in caught.value.remedy
    assert any("declined" in note for note in plan(program, block_needs, machine()).notes)


def test_contradicting_inputs_are_internal_errors() -> None:
    with pytest.raises(InternalError, match="holds none"):
        plan(FACE, lambda op: KernelNeeds(scratch_bytes=(("l7", 4),)), machine())
    twice = Program("twice", FACE.tensors, (*FACE.ops, FACE.ops[-1]), FACE.inputs, FACE.outputs)
    with pytest.raises(InternalError, match="share a name"):
        plan(twice, block_needs, machine())


def unet() -> Program:
    net = ProgramBuilder()
    x = net.input(3, 64, 64)
    skips = []
    for channels in (8, 16, 32):
        x = net.conv(x, channels, 3, pad=1)
        skips.append(x)
        x = net.pool(x, 2, 2)
    x = net.conv(x, 64, 3, pad=1)
    for channels in (32, 16, 8):
        x = net.conv(net.concat(net.upsample(x, 2), skips.pop()), channels, 3, pad=1)
    return net.build(net.conv(x, 1))


def mobilenet() -> Program:
    net = ProgramBuilder(bits=8)
    x = net.conv(net.input(3, 64, 64), 16, 3, stride=2, pad=1)
    outputs = []
    for expand, channels, stride in [(16, 8, 1), (48, 12, 2), (72, 12, 1), (72, 16, 2), (96, 16, 1), (96, 16, 1)]:
        y = net.conv(net.conv(x, expand), expand, 3, stride=stride, pad=1, groups=expand)
        y = net.conv(y, channels)
        x = net.add(x, y) if net.shape(x) == net.shape(y) else y
        if stride == 2:
            outputs.append(x)
    return net.build(*outputs, x)


@pytest.mark.parametrize("program", [unet(), mobilenet()], ids=["unet", "mobilenet"])
def test_branching_networks_reach_their_bound(program: Program) -> None:
    planned = plan(program, block_needs, machine(), repack_limit=1.0)
    check_plan(program, planned, block_needs)
    assert planned.regions["l2"].proven_optimal


def moved_bytes(program: Program, planned: MemoryPlan) -> int:
    """Bytes that concatenations copy."""
    total = 0
    for op in program.ops:
        if isinstance(op, Concat):
            start = planned.places[op.output].offset_bytes
            for name in op.inputs:
                place = planned.places[name]
                in_place = (place.buffer, place.offset_bytes) == (planned.places[op.output].buffer, start)
                total += 0 if in_place else place.size_bytes
                start += place.size_bytes
    return total


def test_fires_concatenate_without_copies() -> None:
    planned = plan(FACE, block_needs, machine())
    assert moved_bytes(FACE, planned) == 0
    for op in FACE.ops:
        if isinstance(op, Reshape):
            assert planned.places[op.output].buffer == planned.places[op.inputs[0]].buffer


def test_a_gap_that_only_chunk_sizes_make_is_explained() -> None:
    planned = plan(FACE, block_needs, machine(), repack_limit=0.0)
    gap = planned.regions["l2"].peak_bytes - planned.regions["l2"].lower_bound_bytes
    assert gap == 3 * FIRE1_BLOCK
    assert any(f"single weight blocks would save {gap} bytes" in note for note in planned.notes)
