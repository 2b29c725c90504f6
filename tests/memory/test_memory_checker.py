"""The checker accepts sound plans and notices every kind of damage done to one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from program_builder import ProgramBuilder, block_needs, face_network
from random_programs import random_programs

from nnkit.errors import InternalError
from nnkit.memory.checker import check_plan
from nnkit.memory.plan import MemoryPlan, Region
from nnkit.program import Program
from nnkit_gap8.loads import MemoryMachine
from nnkit_gap8.planner import plan

MACHINE = MemoryMachine(Region("l1", 65536), Region("l2", 1 << 20), Region("l3", 1 << 23), 100, 200)


def small_program() -> Program:
    """A Fire with a residual: concatenation in place, an addition in place, several weight chunks, a reshape."""
    net = ProgramBuilder()
    x = net.conv(net.input(4, 16, 16, name="image"), 8, 3, pad=1, name="stem")
    y = net.fire(x, 4, 4, "fire")
    z = net.add(x, y, name="sum")
    z = net.conv(z, 64, 3, name="head", pool=(2, 2))
    return net.build(net.reshape(net.pool(z, 7, 1, name="gap"), 64, name="out"))


PROGRAM = small_program()
PLAN = plan(PROGRAM, block_needs, MACHINE)


def buffers(base: MemoryPlan, name: str, **changes: Any) -> MemoryPlan:
    return replace(base, buffers={**base.buffers, name: replace(base.buffers[name], **changes)})


def places(base: MemoryPlan, tensor: str, **changes: Any) -> MemoryPlan:
    return replace(base, places={**base.places, tensor: replace(base.places[tensor], **changes)})


def chunks(base: MemoryPlan, index: int, **changes: Any) -> MemoryPlan:
    return replace(base, chunks=tuple(replace(c, **changes) if i == index else c for i, c in enumerate(base.chunks)))


def steps(base: MemoryPlan, index: int, **changes: Any) -> MemoryPlan:
    return replace(base, steps=tuple(replace(s, **changes) if i == index else s for i, s in enumerate(base.steps)))


def test_the_plans_at_hand_are_sound() -> None:
    check_plan(PROGRAM, PLAN, block_needs)
    face = face_network()
    check_plan(face, plan(face, block_needs, MACHINE), block_needs)


def step_of(op: str) -> int:
    return next(step.index for step in PLAN.steps if step.op == op)


HEAD = next(i for i, chunk in enumerate(PLAN.chunks) if chunk.op == "head")
STEM = PLAN.buffers[PLAN.places["stem_v"].buffer]
FIRE = PLAN.buffers[PLAN.places["fire_v"].buffer]

MUTATIONS: dict[str, tuple[Callable[[], MemoryPlan], str]] = {
    "a buffer moved onto another": (
        lambda: buffers(PLAN, FIRE.name, offset_bytes=STEM.offset_bytes + 4),
        "overlaps",
    ),
    "two buffers swapped in size": (lambda: buffers(PLAN, STEM.name, size_bytes=16), "does not lie inside|overlaps"),
    "a misaligned buffer": (
        lambda: buffers(PLAN, "head:weights:0", offset_bytes=PLAN.buffers["head:weights:0"].offset_bytes + 2),
        "multiple of 4",
    ),
    "a buffer beyond the region": (lambda: buffers(PLAN, "stack", offset_bytes=1 << 20), "beyond l2"),
    "a negative offset": (lambda: buffers(PLAN, FIRE.name, offset_bytes=-4), "multiple of"),
    "a lifetime that ends before the last reader": (
        lambda: buffers(PLAN, STEM.name, last_step=step_of("sum") - 1),
        "does not live",
    ),
    "a lifetime that starts after the writer": (
        lambda: buffers(PLAN, FIRE.name, first_step=FIRE.first_step + 1),
        "does not live",
    ),
    "a lifetime beyond the last step": (lambda: buffers(PLAN, STEM.name, last_step=10_000), "lives in steps"),
    "an activation in scratch": (lambda: buffers(PLAN, STEM.name, kind="scratch"), "used while|overlaps"),
    "a concatenation's part at the wrong place": (
        lambda: places(PLAN, "fire.expand3x3_v", offset_bytes=0),
        "was written by",
    ),
    "a reshape elsewhere": (
        lambda: places(PLAN, "out_v", buffer=PLAN.places["fire_v"].buffer),
        "does not lie where|does not live",
    ),
    "an addition's result across its input": (
        lambda: places(
            buffers(PLAN, STEM.name, size_bytes=STEM.size_bytes),
            "sum_v",
            buffer=PLAN.places["fire_v"].buffer,
            offset_bytes=0,
        ),
        "does not live|was written by|written over",
    ),
    "a tensor without a place": (
        lambda: replace(PLAN, places={n: p for n, p in PLAN.places.items() if n != "head_v"}),
        "has no place",
    ),
    "a place of the wrong size": (lambda: places(PLAN, "head_v", size_bytes=4), "does not lie inside"),
    "a place that sticks out of its buffer": (
        lambda: places(PLAN, "fire_v", offset_bytes=4),
        "does not lie inside",
    ),
    "a part between elements": (lambda: places(PLAN, "fire.expand1x1_v", offset_bytes=1), "not aligned"),
    "scratch missing": (
        lambda: replace(PLAN, buffers={n: b for n, b in PLAN.buffers.items() if n != "stem:scratch:l1"}),
        "bytes of scratch|buffers end at",
    ),
    "scratch too small": (lambda: buffers(PLAN, "fire.expand3x3:scratch:l1", size_bytes=4), "bytes of scratch"),
    "scratch at another step": (
        lambda: buffers(PLAN, "fire.expand3x3:scratch:l1", first_step=0, last_step=0),
        "overlaps|bytes of scratch",
    ),
    "weights fetched into a buffer not yet theirs": (
        lambda: chunks(PLAN, HEAD, fetch_step=0),
        "does not live from the copy",
    ),
    "weights fetched after they are used": (
        lambda: chunks(PLAN, HEAD, fetch_step=PLAN.chunks[HEAD].step + 1),
        "is for",
    ),
    "a chunk that skips a block": (
        lambda: chunks(PLAN, HEAD, first_block=1),
        "does not follow",
    ),
    "a chunk of fewer bytes than its blocks": (
        lambda: chunks(PLAN, HEAD, size_bytes=PLAN.chunks[HEAD].size_bytes - 4),
        "not its weight blocks|does not follow",
    ),
    "a chunk from another layer's bytes in L3": (lambda: chunks(PLAN, HEAD, l3_offset_bytes=0), "lie on those of"),
    "a chunk amid another layer's bytes in L3": (lambda: chunks(PLAN, HEAD, l3_offset_bytes=4), "does not follow"),
    "weights beyond L3's use": (lambda: replace(PLAN, l3_weight_bytes=PLAN.l3_weight_bytes - 4), "l3"),
    "a chunk without a buffer": (lambda: chunks(PLAN, HEAD, buffer="nowhere"), "no buffer"),
    "a chunk in another kind of buffer": (lambda: chunks(PLAN, HEAD, buffer=STEM.name), "no buffer"),
    "a chunk never used": (lambda: steps(PLAN, PLAN.chunks[HEAD].step, chunk=None), "never used|runs twice"),
    "a chunk that does not exist": (lambda: steps(PLAN, 0, chunk=999), "does not exist"),
    "another op's chunk": (lambda: steps(PLAN, 0, chunk=HEAD), "is for"),
    "a step left out": (lambda: replace(PLAN, steps=PLAN.steps[:-1]), "lives in steps|does not run"),
    "two steps exchanged": (
        lambda: replace(PLAN, steps=(PLAN.steps[1], PLAN.steps[0], *PLAN.steps[2:])),
        "does not run|index",
    ),
    "a step that reads something else": (lambda: steps(PLAN, 1, reads=("image",)), "does not read"),
    "a step that writes something else": (lambda: steps(PLAN, 1, writes=("image",)), "does not read and write"),
    "a peak too small": (
        lambda: replace(PLAN, regions={**PLAN.regions, "l2": replace(PLAN.regions["l2"], peak_bytes=8)}),
        "it says peak",
    ),
    "a bound above the peak": (
        lambda: replace(PLAN, regions={**PLAN.regions, "l2": replace(PLAN.regions["l2"], lower_bound_bytes=1 << 19)}),
        "it says peak",
    ),
    "a capacity below the peak": (
        lambda: replace(PLAN, regions={**PLAN.regions, "l2": replace(PLAN.regions["l2"], capacity_bytes=64)}),
        "beyond|it says",
    ),
    "a region that does not exist": (lambda: buffers(PLAN, STEM.name, region="l9"), "no region"),
    "the context in the pool": (lambda: buffers(PLAN, "context", offset_bytes=STEM.offset_bytes), "overlaps"),
    "a buffer under another's name": (
        lambda: replace(PLAN, buffers={**PLAN.buffers, "ghost": PLAN.buffers["stack"]}),
        "listed as",
    ),
}


@pytest.mark.parametrize("what", MUTATIONS)
def test_damage_is_noticed(what: str) -> None:
    damage, message = MUTATIONS[what]
    with pytest.raises(InternalError, match=message):
        check_plan(PROGRAM, damage(), block_needs)


def test_an_error_names_step_and_buffers() -> None:
    with pytest.raises(InternalError) as caught:
        check_plan(PROGRAM, MUTATIONS["a buffer moved onto another"][0](), block_needs)
    assert caught.value.where.startswith("step ")
    assert FIRE.name in caught.value.reason
    assert STEM.name in caught.value.reason


def chain(*sizes: int) -> Program:
    net = ProgramBuilder(bits=8)
    x = net.input(sizes[0], 1, 1, name="x")
    for index, size in enumerate(sizes[1:]):
        x = net.conv(x, size, name=f"c{index}")
    return net.build()


def test_the_replay_alone_notices_a_value_overwritten_between_writer_and_reader() -> None:
    """Buffers that claim to be dead in time: only who wrote the bytes tells that the skip's value is gone."""
    net = ProgramBuilder(bits=8)
    x = net.input(8, 1, 1, name="x")
    skip = net.conv(x, 8, name="skip")
    mid = net.conv(net.conv(skip, 8, name="m0"), 8, name="m1")
    program = net.build(net.concat(mid, skip, shifts=(0, 1), name="cat"))
    sound = plan(program, block_needs, MACHINE)
    check_plan(program, sound, block_needs)
    # The place of `skip` is redirected, at its reader, to bytes that `m0` wrote.
    lying = places(sound, "m1_v", buffer=sound.places["skip_v"].buffer, offset_bytes=0)
    with pytest.raises(InternalError, match=r"was written by|written over"):
        check_plan(program, lying, block_needs)


def test_a_prefetch_onto_bytes_still_read_is_noticed() -> None:
    program = chain(64, 64, 8, 8)
    sound = plan(program, block_needs, MACHINE)
    late = max(range(len(sound.chunks)), key=lambda i: sound.chunks[i].step)
    chunk = sound.chunks[late]
    victim = sound.buffers[sound.places["c0_v"].buffer]
    moved = buffers(sound, chunk.buffer, offset_bytes=victim.offset_bytes, first_step=victim.last_step)
    moved = chunks(moved, late, fetch_step=victim.last_step)
    with pytest.raises(InternalError, match="overlaps"):
        check_plan(program, moved, block_needs)


@settings(max_examples=60)
@given(random_programs(), st.data())
def test_moving_any_live_buffer_onto_another_is_noticed(program: Program, data: st.DataObject) -> None:
    sound = plan(program, block_needs, MACHINE)
    names = sorted(name for name, b in sound.buffers.items() if b.region == "l2" and b.size_bytes)
    first = sound.buffers[data.draw(st.sampled_from(names))]
    second = sound.buffers[data.draw(st.sampled_from(names))]
    together = first.first_step <= second.last_step and second.first_step <= first.last_step
    assume(first.name != second.name and together)
    with pytest.raises(InternalError):
        check_plan(program, buffers(sound, first.name, offset_bytes=second.offset_bytes), block_needs)


def harmful_redirections(program: Program, sound: MemoryPlan) -> list[tuple[str, str]]:
    """(tensor, other): writing `tensor` where `other` lies destroys `other` before or while it is read."""
    born = dict.fromkeys(program.inputs, -1) | {op.output: i for i, op in enumerate(program.ops)}
    read = {name: max((i for i, op in enumerate(program.ops) if name in op.inputs), default=-1) for name in born}
    pairs = []
    for op in program.ops:
        if op.kind in ("add", "mul", "activation"):
            continue  # these may write over an input
        a = sound.places[op.output]
        for other in born:
            b = sound.places[other]
            alive = born[other] < born[op.output] <= read[other]
            if alive and (a.buffer, a.offset_bytes) != (b.buffer, b.offset_bytes):
                pairs.append((op.output, other))
    return pairs


@settings(max_examples=60)
@given(random_programs(), st.data())
def test_redirecting_a_tensor_onto_a_live_one_is_noticed(program: Program, data: st.DataObject) -> None:
    sound = plan(program, block_needs, MACHINE)
    pairs = harmful_redirections(program, sound)
    assume(pairs)
    tensor, other = data.draw(st.sampled_from(pairs))
    target = sound.places[other]
    moved = places(sound, tensor, buffer=target.buffer, offset_bytes=target.offset_bytes)
    with pytest.raises(InternalError):
        check_plan(program, moved, block_needs)
