"""Independent check of a `JointPlan`: nothing live is overwritten, and what a stage reads is what was left for it.

Each network's own plan is replayed by `checker`; here is what holds between them. Nothing is shared with the planner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnkit.memory.claims import check_regions, wrong
from nnkit.memory.joint_plan import RESERVED, JointPlan, Stage, Survivor
from nnkit.memory.plan import Buffer


def check_joint_plan(joint: JointPlan, order: Sequence[str | Stage], survivors: Sequence[Survivor]) -> None:
    """Raise InternalError unless the joint plan is sound.

    Proven: every network's buffers lie where its own plan has them, in the steps in which it has them; no two buffers
    that live in one step share bytes; what a stage touches lives in that stage, and so from where it was written to
    where it is read; weights of two networks do not overlap; the peaks are those of the buffers.
    """
    plan = joint.plan
    check_regions(plan, 4)
    _check_steps(joint, order)
    starts = _first_steps(joint, order)
    for network, own in joint.networks.items():
        for buffer in own.buffers.values():
            if buffer.kind not in RESERVED:
                _check_same(buffer, plan.buffers.get(f"{network}/{buffer.name}"), starts[network])
    for survivor in survivors:
        placed = plan.buffers.get(survivor.name)
        if placed is None or placed.size_bytes != survivor.size_bytes:
            raise wrong("it has no place of its size", survivor.name)
        if not survivor.stages and (placed.first_step, placed.last_step) != (0, len(plan.steps) - 1):
            raise wrong("it is to live always, and does not", survivor.name)
    for item in order:
        if isinstance(item, Stage):
            for value in (*item.reads, *item.writes):
                _check_lives(joint, value, starts[item.name], item.name)
    _check_apart(list(plan.buffers.values()))
    _check_weights(joint)


def _check_steps(joint: JointPlan, order: Sequence[str | Stage]) -> None:
    wanted: list[str] = []
    for item in order:
        if isinstance(item, Stage):
            wanted.append(item.name)
        else:
            wanted += [f"{item}/{step.op}" for step in joint.networks[item].steps]
    if [step.op for step in joint.plan.steps] != wanted:
        raise wrong("its steps are not those of the networks and stages in their order", "joint plan")


def _first_steps(joint: JointPlan, order: Sequence[str | Stage]) -> Mapping[str, int]:
    starts, step = {}, 0
    for item in order:
        starts[item.name if isinstance(item, Stage) else item] = step
        step += 1 if isinstance(item, Stage) else len(joint.networks[item].steps)
    return starts


def _check_same(own: Buffer, placed: Buffer | None, start: int) -> None:
    if placed is None or (placed.region, placed.offset_bytes, placed.size_bytes) != (
        own.region,
        own.offset_bytes,
        own.size_bytes,
    ):
        raise wrong("it does not lie where its network's plan has it", own.name)
    if placed.first_step > start + own.first_step or placed.last_step < start + own.last_step:
        raise wrong("it does not live as long as its network needs it", placed.name)


def _check_lives(joint: JointPlan, value: str, step: int, stage: str) -> None:
    """A value lives in the stage that touches it; a tensor from there to the network's end of that side."""
    plan = joint.plan
    place = plan.places.get(value)
    buffer = plan.buffers.get(value if place is None else place.buffer)
    if buffer is None:
        raise wrong(f"{value!r} has no place", stage)
    if not buffer.first_step <= step <= buffer.last_step:
        raise wrong(f"{buffer.name!r} does not live there", stage)


def _check_apart(buffers: Sequence[Buffer]) -> None:
    """No two buffers of one region share a byte in a step: each pair is looked at."""
    for index, one in enumerate(buffers):
        for other in buffers[index + 1 :]:
            if one.region != other.region or not one.size_bytes or not other.size_bytes:
                continue
            meet = one.first_step <= other.last_step and other.first_step <= one.last_step
            overlap = (
                one.offset_bytes < other.offset_bytes + other.size_bytes
                and other.offset_bytes < one.offset_bytes + one.size_bytes
            )
            if meet and overlap:
                step = max(one.first_step, other.first_step)
                raise wrong(f"{one.name!r} overlaps {other.name!r} in {one.region}", f"step {step}")


def _check_weights(joint: JointPlan) -> None:
    end = 0
    for network, plan in joint.networks.items():
        start = end
        for chunk in plan.chunks:
            if chunk.l3_offset_bytes < start:
                raise wrong(f"weights of {network!r} lie over others", chunk.op)
            end = max(end, chunk.l3_offset_bytes + chunk.size_bytes)
    if end > joint.plan.l3_weight_bytes:
        raise wrong(f"weights end at {end}, beyond {joint.plan.l3_weight_bytes}", "joint plan")
