"""The groups that were kept, on our own quantised ops: then the executor computes what the chip does.

The groups stand in the compiler's lowered program. Its ops have the names of ours; it fuses some of them (an
activation into its convolution) and adds others (conversions at the border, rescaling in front of a concatenation,
which ours have within them). So a group is the run of our ops that end up in its ops.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnkit_tpu.layer_group.chip_arithmetic import ChipArithmetic
from nnkit_tpu.layer_group.executor import Execution, execute
from nnkit_tpu.layer_group.from_program import group_graph
from nnkit_tpu.layer_group.groups import GroupedGraph, plan_cuts
from nnkit_tpu.layer_group.model import GroupGraph
from nnkit_tpu.layer_group.slices import Refusal, SliceCount
from nnkit_tpu.layer_group.tune import Tuning
from nnkit_tpu.program import TpuGraph


def prove_on_our_ops(
    tuning: Tuning, graph: TpuGraph, *, batch: int = 1
) -> tuple[Execution, ChipArithmetic] | Refusal:
    """The chosen groups with the arithmetic of `graph`, our quantised program; a refusal where we cannot place one.

    batch: images at once in the compiler's program.
    """
    chip = tuning.program.chip
    planned = group_graph(graph, chip, batch=batch)
    places = _places(planned, tuning)
    order = sorted(planned.ops, key=lambda op: places[op.name])  # stable: what is fused stays in its own order
    ordered = planned.reordered([op.name for op in order])
    cuts: list[tuple[int, int, SliceCount | None]] = []
    for first, last, count in _groups(tuning):
        inside = [index for index, op in enumerate(ordered.ops) if first <= places[op.name] <= last]
        local = [index for index in inside if not ordered.ops[index].not_local]
        if len(local) > 1 and len(local) == local[-1] - local[0] + 1:
            cuts.append((local[0], local[-1], count))
    plan = plan_cuts(ordered, tuning.model, cuts)
    if not isinstance(plan, GroupedGraph):
        return plan
    arithmetic = ChipArithmetic(graph, ordered)
    return execute(chip, plan.graph, plan.parts, arithmetic=arithmetic), arithmetic


def _places(planned: GroupGraph, tuning: Tuning) -> Mapping[str, int]:
    """By op of ours, the number of the compiler's op that it ends up in: its own, or else its first reader's."""
    numbers: dict[str, int] = {}
    for function in tuning.program.functions:
        for op in function.graph.ops:
            numbers.setdefault(op.output, len(numbers))
    places: dict[str, int] = {}
    wanted: dict[str, int] = {}  # tensor -> the first place where it is read
    for op in reversed(planned.ops):
        place = numbers.get(op.output, wanted.get(op.output, len(numbers)))
        places[op.name] = place
        for name in op.inputs:
            wanted[name] = min(wanted.get(name, place), place)
    return places


def _groups(tuning: Tuning) -> list[tuple[int, int, SliceCount | None]]:
    """(first, last, slices) of the chosen groups, numbered over all functions."""
    result: list[tuple[int, int, SliceCount | None]] = []
    start = 0
    for function in tuning.program.functions:
        for group in tuning.best.groups.get(function.name, ()):
            result.append((start + group.first, start + group.last, group.slices))
        start += len(function.graph.ops)
    return result
