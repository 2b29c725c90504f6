"""What groups must keep to beside what the hardware needs, so that the vendor's compiler takes them.

The estimate that is made without the compiler knows none of this. A plan that is given to the compiler has to live
with the compiler's slicing and placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnkit_tpu.chips import Chip
from nnkit_tpu.layer_group.backward import backward_h, backward_n
from nnkit_tpu.layer_group.compiler_placement import compiler_finds_room
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp
from nnkit_tpu.layer_group.slices import Refusal, SlicePlan
from nnkit_tpu.layer_group.timesteps import Schedule


@dataclass(frozen=True)
class Rules:
    """equal_parts: whoever reads or stores a tensor takes all rows of it that a slice holds, and outputs that are
    sliced have the same height. A branch into kernels of different heights then cannot be sliced, nor an output that
    is also read with a halo. own_placement: the compiler's way of placing (`compiler_placement.py`) finds room for a
    plan, and weights stay under slices. judged_early: candidates are judged by that too, not the chosen groups alone.
    """

    equal_parts: bool = False
    own_placement: bool = False
    judged_early: bool = False


FREE = Rules()
UNEQUAL = "compiler's slices"


def compiler_rules(chip: Chip) -> Rules:
    """What the compiler insists on for a chip.

    On the BM chips branches are padded to their hull as ours are, and memory is ample: what is refused there is found
    by compiling.
    """
    return Rules(equal_parts=True, own_placement=True, judged_early=True) if chip.is_cv else FREE


def whole_plan_rules(chip: Chip) -> Rules:
    """What a plan of all groups keeps to: the compiler must find room for each, as one refused group spoils the rest.

    On the BM chips the groups that are chosen are judged, not every candidate.
    """
    return replace(compiler_rules(chip), own_placement=True)


def unequal_parts(graph: GroupGraph, ops: Sequence[GroupOp], plan: SlicePlan) -> Refusal | None:
    """What the compiler cannot cut: a tensor of which somebody takes less than a slice holds, or outputs of different
    heights; None: there is nothing."""
    heights = {name: graph.tensors[name].shape[2] for name in plan.shares}
    if plan.count.h > 1 and len(set(heights.values())) > 1:
        listed = ", ".join(f"{name} has {height} rows" for name, height in list(heights.items())[:3])
        return Refusal(UNEQUAL, ops[0].name, f"{listed}: the compiler cuts outputs of one height only on this chip")
    for op in ops:
        result = graph.tensors[op.output].shape
        for name in op.inputs:
            source = graph.tensors[name].shape
            for made, held in zip(plan.parts[op.output], plan.parts[name], strict=True):
                rows = backward_h(op, made.rows, source, result)
                images = backward_n(op, made.images, source, result)
                if rows != held.rows or images != held.images:
                    return _refusal(name, op.name)
    for name, shares in plan.shares.items():
        if shares != plan.parts[name]:
            return _refusal(name, "its store")
    return None


def no_room(
    chip: Chip, graph: GroupGraph, ops: Sequence[GroupOp], plan: SlicePlan, schedule: Schedule
) -> Refusal | None:
    """A refusal where the compiler's placement finds no room. schedule: the shortest, weights staying."""
    if compiler_finds_room(chip, graph, ops, plan, schedule):
        return None
    slices = f"{plan.count.total} slices" if plan.count.total > 1 else "one slice"
    reason = f"the compiler's placement finds no room for {slices} in {chip.lane_bytes} bytes per lane"
    return Refusal("compiler's placement", ops[0].name, reason)


def _refusal(name: str, reader: str) -> Refusal:
    reason = f"{reader} takes other rows of {name} than its slice holds, which the compiler cannot do on this chip"
    return Refusal(UNEQUAL, name, reason)
