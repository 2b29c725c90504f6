"""Which layers run in stripes of rows, and in how many, so that a network fits into L2 at the least cost.

A program is cut where one tensor alone lives (`stripes.cuts`). Between two cuts the layers run whole or in stripes,
and what they need of L2 does not depend on what the layers elsewhere do. So the cheapest choice under a budget is a
shortest path over the cuts, found exactly, by two estimates for each way from one cut to a later one:

* bytes: the lower bound of a plan of these layers, with weights in the smallest pieces that the kernels wish, and
  where nothing fits so in single blocks;
* cost, in instructions: what is computed, copied and fetched, by stripes in part again.

The plan of the chosen program decides; where it takes more than the estimate, the budget of the search is lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import ceil, inf
from typing import Literal, TypeAlias

from nnkit.errors import DoesNotFitError
from nnkit.memory.plan import MemoryPlan
from nnkit.program import JoinRows, Program, Slice, macs
from nnkit_gap8.assembly import l2_lower_bound
from nnkit_gap8.loads import MemoryMachine, OpLoad, choose_loaded_storages, with_single_blocks
from nnkit_gap8.stripes import Segment, can_be_striped, cuts, entry_of, in_stripes, segment_program

StripesOption: TypeAlias = Literal["auto", "never", "least"]
LoadsOf: TypeAlias = Callable[[Program], list[OpLoad]]

_COUNTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
_MOST_CUTS = 6  # from the first to the last of a way in stripes: the more layers, the more rows computed twice
_TRIALS = 8  # budgets of the search, each a 64th smaller

_PER_MAC = 3.0
_PER_MOVED_ELEMENT = 6.0
_PER_FETCHED_BYTE = 1.0
_PER_STEP = 200.0
# Of a stripe: its rows of the table of steps, and what its parameters do not share with other stripes. `code_size`
# counts 123 to 162 bytes where few stripes share little.
_CODE_BYTES_PER_OP = 120


@dataclass(frozen=True)
class _Way:
    """The layers between two cuts, in so many stripes; 1: whole. cost: in instructions."""

    segment: Segment
    l2_bytes: int
    cost: float
    op_count: int


def with_stripes(
    program: Program,
    option: StripesOption,
    machine_of: Callable[[], MemoryMachine],
    loads_of: LoadsOf,
    plan: Callable[[Program], MemoryPlan],
) -> Program:
    """`program`, with layers in stripes where the option asks for it.

    auto: where no plan of the whole layers fits L2, the cheapest stripes with which one does. least: the stripes with
    the least L2 peak and code together, by an estimate of the code.

    Args:
        machine_of: the memories; asked only where there is something to search.
        loads_of: what the ops of a program need beside activations, with weights in the pieces that are wished.
        plan: the target's planner; raises DoesNotFitError.

    Raises:
        DoesNotFitError: no plan fits, whole or in stripes.
    """
    if option == "never":
        return program
    whole = _planned(program, plan)
    if option == "auto" and not isinstance(whole, DoesNotFitError):
        return program
    machine = machine_of()
    search = _Search(program, machine, loads_of)
    if option == "least":
        segments = search.least()
        candidate = in_stripes(program, segments)
        reached = _planned(candidate, plan)
        gains = not isinstance(reached, DoesNotFitError) and (
            isinstance(whole, DoesNotFitError) or _l2_bytes(reached) < _l2_bytes(whole)
        )
        if segments and gains and not isinstance(reached, DoesNotFitError):
            return _told(program, candidate, segments, reached)
    if not isinstance(whole, DoesNotFitError):
        return program
    fitting = _fitting(search, machine.l2.capacity_bytes, plan)
    if fitting is None and with_single_blocks(loads_of(program)) != loads_of(program):
        search = _Search(program, machine, lambda part: with_single_blocks(loads_of(part)))
        fitting = _fitting(search, machine.l2.capacity_bytes, plan)
    if fitting is None:
        least_bytes = search.least_budget_bytes()
        raise _with_stripes_told(whole, least_bytes) if least_bytes < search.whole_bytes() else whole
    return _told(program, *fitting)


def _fitting(
    search: _Search, budget_bytes: int, plan: Callable[[Program], MemoryPlan]
) -> tuple[Program, list[Segment], MemoryPlan] | None:
    """The cheapest choice that a plan fits; None: none of those tried."""
    for _ in range(_TRIALS):
        segments = search.cheapest(budget_bytes)
        if not segments:
            return None
        candidate = in_stripes(search.program, segments)
        reached = _planned(candidate, plan)
        if not isinstance(reached, DoesNotFitError):
            return candidate, segments, reached
        budget_bytes -= budget_bytes // 64
    return None


def _planned(program: Program, plan: Callable[[Program], MemoryPlan]) -> MemoryPlan | DoesNotFitError:
    try:
        return plan(program)
    except DoesNotFitError as error:
        return error


def _with_stripes_told(error: DoesNotFitError, least_bytes: int) -> DoesNotFitError:
    """The error of the whole layers, and what they would need of L2 in stripes."""
    remedy = f"{error.remedy}; or at least {least_bytes:,} bytes of L2 with layers in stripes of rows"
    return DoesNotFitError(error.reason, where=error.where, remedy=remedy)


def _l2_bytes(plan: MemoryPlan) -> int:
    return plan.regions["l2"].peak_bytes


def _told(whole: Program, striped: Program, segments: list[Segment], plan: MemoryPlan) -> Program:
    return replace(striped, notes=(*striped.notes, _note(whole, striped, segments, plan)))


def _note(whole: Program, striped: Program, segments: list[Segment], plan: MemoryPlan) -> str:
    parts = [
        f"{whole.ops[segment.first].name} to {whole.ops[segment.last - 1].name} in {segment.count} stripes"
        for segment in segments
    ]
    more = sum(macs(op, striped) for op in striped.ops) / max(1, sum(macs(op, whole) for op in whole.ops)) - 1
    return (
        f"in stripes of rows: {', '.join(parts)}; {_l2_bytes(plan):,} bytes of L2, {100 * more:.2f} % of the "
        f"multiply-accumulates a second time, {sum(_moved_bytes(striped)):,} bytes copied, "
        f"{sum(chunk.size_bytes for chunk in plan.chunks):,} bytes of weights fetched of {plan.l3_weight_bytes:,}"
    )


def _moved_bytes(program: Program) -> Iterator[int]:
    """Bytes that each op of stripes copies."""
    for op in program.ops:
        if isinstance(op, Slice | JoinRows):
            yield program.tensors[op.output].size_bytes


class _Search:
    """Ways from cut to cut, each estimated once."""

    def __init__(self, program: Program, machine: MemoryMachine, loads_of: LoadsOf) -> None:
        self.program, self._machine, self._loads_of = program, machine, loads_of
        self._cuts = cuts(program)
        if not self._cuts or self._cuts[0]:
            self._cuts.insert(0, 0)  # several inputs: the layers up to the first cut run whole
        self._cuts.append(len(program.ops))
        self._known: dict[Segment, _Way] = {}
        whole = [self._estimate(Segment(a, b, 1)).cost for a, b in pairwise(self._cuts)]
        self._whole_costs = [*accumulate(whole, initial=0.0)]
        ends_alone = program.outputs == (program.ops[-1].output,)
        self._single = {*cuts(program), *([len(program.ops)] if ends_alone else [])}

    def cheapest(self, budget_bytes: int) -> list[Segment] | None:
        """The segments in stripes of the cheapest choice that the estimates allow; None: there is none."""
        count = len(self._cuts)
        unreached: tuple[float, tuple[Segment, ...]] = (inf, ())
        best = [unreached] * count
        best[0] = 0.0, ()
        for end in range(1, count):
            for start in range(end - 1, max(0, end - _MOST_CUTS) - 1, -1):
                least_cost = best[start][0] + self._whole_costs[end] - self._whole_costs[start]
                way = self._way(start, end, budget_bytes) if least_cost < best[end][0] else None
                if way is not None and best[start][0] + way.cost < best[end][0]:
                    striped = (way.segment,) if way.segment.count > 1 else ()
                    best[end] = best[start][0] + way.cost, (*best[start][1], *striped)
        cost, segments = best[-1]
        return None if cost == inf else list(segments)

    def least_budget_bytes(self) -> int:
        """The smallest budget for which there is a choice."""
        low, high = 0, self.whole_bytes()
        while low < high:
            middle = (low + high) // 2
            if self.cheapest(middle) is None:
                low = middle + 1
            else:
                high = middle
        return low

    def whole_bytes(self) -> int:
        """What the layers need of L2 where none runs in stripes."""
        return max(self._estimate(Segment(a, b, 1)).l2_bytes for a, b in pairwise(self._cuts))

    def least(self) -> list[Segment]:
        """The choice with the least L2 and code together; code lies in L2 on the chip."""
        budget, whole_bytes = self.least_budget_bytes(), self.whole_bytes()
        best: tuple[float, list[Segment]] = (inf, [])
        while budget <= whole_bytes:
            segments = self.cheapest(budget) or []
            more_ops = sum(self._estimate(each).op_count - (each.last - each.first) for each in segments)
            total = budget + _CODE_BYTES_PER_OP * more_ops
            best = min(best, (total, segments), key=lambda pair: pair[0])
            budget += max(256, budget // 32)
        return best[1]

    def _way(self, start: int, end: int, budget_bytes: int) -> _Way | None:
        """The cheapest way between two cuts within a budget: whole between neighbours, or in few stripes."""
        first, last = self._cuts[start], self._cuts[end]
        if end == start + 1:
            whole = self._estimate(Segment(first, last, 1))
            if whole.l2_bytes <= budget_bytes:
                return whole
        ops = self.program.ops[first:last]
        if not {first, last} <= self._single or not all(can_be_striped(op, self.program) for op in ops):
            return None
        rows = self.program.tensors[ops[-1].output].shape[1]
        fitting = (
            way
            for count in _COUNTS
            if count <= rows
            and self._at_least_bytes(Segment(first, last, count)) <= budget_bytes
            and (way := self._estimate(Segment(first, last, count))).l2_bytes <= budget_bytes
        )
        return next(fitting, None)

    def _at_least_bytes(self, segment: Segment) -> int:
        """A quick bound: in the last stripe but one what is whole or done, and an op's rows; or both sides of a join.

        An op has at least as many rows in a stripe as the stripe's result.
        """
        tensors, ops = self.program.tensors, self.program.ops[segment.first : segment.last]
        entry, end = tensors[entry_of(self.program, segment.first)], tensors[ops[-1].output]
        rows, done = end.shape[1] // segment.count, ceil(end.shape[1] * (segment.count - 2) / segment.count)
        row_bytes = [tensors[op.output].size_bytes // tensors[op.output].shape[1] for op in ops]
        return max(entry.size_bytes + done * row_bytes[-1] + rows * max(row_bytes), 2 * end.size_bytes)

    def _estimate(self, segment: Segment) -> _Way:
        if segment not in self._known:
            part = segment_program(self.program, segment)
            storages, loads = choose_loaded_storages(part, self._loads_of(part), self._machine.l2.alignment_bytes)
            l2_bytes = l2_lower_bound(loads, self._machine, storages, single_blocks=False)
            self._known[segment] = _Way(segment, l2_bytes, _cost(part, loads), len(part.ops))
        return self._known[segment]


def _cost(program: Program, loads: list[OpLoad]) -> float:
    elements = sum(_moved_bytes(program)) / 2
    return (
        _PER_MAC * sum(macs(op, program) for op in program.ops)
        + _PER_MOVED_ELEMENT * elements
        + _PER_FETCHED_BYTE * sum(sum(load.blocks) for load in loads)
        + _PER_STEP * len(program.ops)
    )
