"""Joint plans of hand-made networks, and wrong ones that the checker must refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nnkit.errors import DoesNotFitError, InternalError
from nnkit.memory.joint_checker import check_joint_plan
from nnkit.memory.joint_plan import JointPlan, Stage, Survivor, join
from nnkit.memory.plan import Buffer, MemoryPlan, Region, RegionUse, Step, TensorPlace, WeightChunk

REGIONS = (Region("l1", 1000), Region("l2", 4000), Region("l3", 9000))


def network(input_bytes: int, output_bytes: int, weight_bytes: int, l1_bytes: int) -> MemoryPlan:
    """One op: the input at 0, the output behind it, then the weights; 16 bytes of context and 64 of stack."""
    weights_at = input_bytes + output_bytes
    pool = weights_at + weight_bytes
    buffers = [
        Buffer("x", "activation", "l2", 0, input_bytes, 0, 0),
        Buffer("y", "activation", "l2", input_bytes, output_bytes, 0, 0),
        Buffer("w", "weights", "l2", weights_at, weight_bytes, 0, 0),
        Buffer("s", "scratch", "l1", 0, l1_bytes, 0, 0),
        Buffer("context", "context", "l2", pool, 16, 0, 0),
        Buffer("stack", "stack", "l2", pool + 16, 64, 0, 0),
    ]
    regions = {
        "l1": RegionUse(1000, l1_bytes, l1_bytes, True),
        "l2": RegionUse(4000, pool + 80, pool + 80, True),
        "l3": RegionUse(9000, weight_bytes, weight_bytes, True),
    }
    places = {name: TensorPlace(name, name, 0, size) for name, size in (("x", input_bytes), ("y", output_bytes))}
    chunk = WeightChunk("op", 0, 1, 0, weight_bytes, "w", 0, 0)
    step = Step(0, "op", 0, ("x",), ("y",))
    return MemoryPlan("hand", regions, {b.name: b for b in buffers}, places, (step,), (chunk,), weight_bytes)


PLANS = {"one": network(400, 200, 300, 80), "two": network(800, 100, 500, 40)}
ORDER = (
    Stage("before", ("frame",), ("one/x",)),
    "one",
    Stage("find", ("one/y",), ("found",)),
    Stage("cut", ("frame", "found"), ("two/x",)),
    "two",
    Stage("behind", ("two/y", "found"), ("known",)),
)
SURVIVORS = (
    Survivor("frame", "activation", 1000, ("before", "cut")),
    Survivor("found", "activation", 60, ("find", "behind")),
    Survivor("known", "activation", 40),
    Survivor("context", "context", 16),
    Survivor("stack", "stack", 128),
)


def joined(survivors: tuple[Survivor, ...] = SURVIVORS) -> JointPlan:
    return join(ORDER, PLANS, survivors, REGIONS, shared="l2", weights="l3")


def test_regions_are_the_largest_and_weights_lie_side_by_side() -> None:
    joint = joined()
    check_joint_plan(joint, ORDER, SURVIVORS)
    plan = joint.plan
    assert plan.regions["l1"].peak_bytes == 80
    assert plan.regions["l3"].peak_bytes == 800
    assert [chunk.l3_offset_bytes for chunk in plan.chunks] == [0, 300]
    # While `one` runs: its 900, the frame, `known`, context and stack; while `two` does, less.
    assert plan.regions["l2"].lower_bound_bytes == 900 + 1000 + 40 + 16 + 128
    # The frame lies behind `one`, `found` behind `two` and off the frame: at the end. No hole is left for `known`.
    assert plan.regions["l2"].peak_bytes == 900 + 1000 + 60 + 40 + 16 + 128
    assert [step.op for step in plan.steps] == ["before", "one/op", "find", "cut", "two/op", "behind"]
    assert (plan.buffers["frame"].first_step, plan.buffers["frame"].last_step) == (0, 3)
    assert (plan.buffers["one/x"].first_step, plan.buffers["one/y"].last_step) == (0, 2)


def test_what_lives_at_different_times_shares_its_place() -> None:
    """Two survivors of 1000 bytes that never meet take the room of one."""
    early = Survivor("early", "activation", 1000, ("before",))
    late = Survivor("late", "activation", 1000, ("behind",))
    alone = joined((early, *SURVIVORS)).plan.regions["l2"].peak_bytes
    assert joined((early, late, *SURVIVORS)).plan.regions["l2"].peak_bytes <= alone


def test_what_does_not_fit_says_who_needs_how_much() -> None:
    with pytest.raises(DoesNotFitError, match=r"one 980 alone, two 1,480 alone, frame 3,500"):
        joined((replace(SURVIVORS[0], size_bytes=3500), *SURVIVORS[1:]))


def moved(name: str, **changes: int) -> Callable[[JointPlan], JointPlan]:
    def change(joint: JointPlan) -> JointPlan:
        buffers = dict(joint.plan.buffers) | {name: replace(joint.plan.buffers[name], **changes)}
        return replace(joint, plan=replace(joint.plan, buffers=buffers))

    return change


def weights_over_others(joint: JointPlan) -> JointPlan:
    two = joint.networks["two"]
    chunk = replace(two.chunks[0], l3_offset_bytes=100)
    return replace(joint, networks={**joint.networks, "two": replace(two, chunks=(chunk,))})


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (moved("frame", offset_bytes=0), "overlaps"),
        (moved("found", offset_bytes=400), "overlaps"),
        (moved("frame", last_step=1), "does not live there"),
        (moved("one/y", last_step=1), "does not live there"),
        (moved("two/x", first_step=4), "does not live there"),
        (moved("known", last_step=4), "is to live always"),
        (moved("one/w", offset_bytes=604), "does not lie where its network's plan has it"),
        (moved("two/w", first_step=5, last_step=5), "does not live as long"),
        (moved("found", size_bytes=8), "has no place of its size"),
        (weights_over_others, "weights of 'two' lie over others"),
    ],
)
def test_a_wrong_plan_is_refused(break_it: Callable[[JointPlan], JointPlan], reason: str) -> None:
    with pytest.raises(InternalError, match=reason):
        check_joint_plan(break_it(joined()), ORDER, SURVIVORS)
