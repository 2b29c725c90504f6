"""The search for offsets: items with lifetimes and sizes -> addresses with the least peak, and what is proven of it.

The problem is two-dimensional strip packing with one axis (time) given, also called dynamic storage allocation;
it is NP-hard. The road taken, each stage bounded in steps so that a result never depends on the machine's speed:

1. the lower bound: the largest sum of items live at once, with what alignment makes of it;
2. first fit in several orders (`first_fit`): most networks reach the bound here, which is its own proof;
3. a short branch and bound at the bound (`search`), which finds what greedy orders miss;
4. hill climbing over orders (`climb`);
5. branch and bound with the remaining nodes: a peak below the best one is sought, or refuted;
6. with the extra `[solver]` and nodes for it, a race of the compiled branch and bound and CP-SAT (`race`) where the
   peak is still open. It comes last, so that whatever the core alone finishes is the same to the byte with and
   without the extra.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from nnkit.memory import climb, first_fit, race, search
from nnkit.memory.packing import Item, Packing, Rules, max_live

Reason: TypeAlias = Literal["bound", "exhausted", "open"]


@dataclass(frozen=True)
class Effort:
    """Limits in steps. `climb_steps` placements of the hill climb, `search_nodes` nodes of the branch and bound.

    solver_nodes: nodes of the race of solvers, used only where the extra `[solver]` is installed; 0: never.
    """

    climb_steps: int = 300
    search_nodes: int = 20_000
    solver_nodes: int = 0
    seed: int = 1

    @staticmethod
    def of_steps(steps: int, solver: bool = False) -> Effort:
        """The effort that a budget of `steps` nodes buys; with `solver`, ten times as many for the extra's race.

        The hill climb gets three placements of all items for every 200 nodes, at most 2,000.
        """
        return Effort(min(3 * steps // 200, 2000), steps, 10 * steps if solver else 0)


@dataclass(frozen=True)
class Certificate:
    """Why the peak is what it is.

    reason: "bound": the peak equals the items live at `step`; "exhausted": every packing below the peak was
    refuted by search; "open": neither, the least peak lies in [lower_bound_bytes, peak_bytes].
    step, live: the step that gives the lower bound of live items, and those items.
    """

    reason: Reason
    step: int
    live: tuple[str, ...]
    method: str
    search_nodes: int


@dataclass(frozen=True)
class Solution:
    """Offsets by item, the peak (end of the highest item) and the best proven lower bound of it."""

    offsets_bytes: Mapping[str, int]
    peak_bytes: int
    lower_bound_bytes: int
    certificate: Certificate

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets_bytes", MappingProxyType(dict(self.offsets_bytes)))

    @property
    def proven_optimal(self) -> bool:
        """Whether no packing has a smaller peak."""
        return self.peak_bytes == self.lower_bound_bytes


def solve(
    items: tuple[Item, ...],
    effort: Effort | None = None,
    goal_bytes: int | None = None,
    rules: Rules | None = None,
) -> Solution:
    """Pack `items` with the least peak that the effort finds. Deterministic. See `pack`.

    Args:
        rules: what holds beside "no byte twice" (diagonal overlaps, banks).

    Raises:
        InternalError: two items share an id, fixed items overlap in bytes and time, or the rules contradict.
    """
    return pack(Packing.of(items, rules), effort or Effort(), goal_bytes)


def pack(packing: Packing, limits: Effort, goal_bytes: int | None = None) -> Solution:
    """Offsets for `packing` with the least peak that the effort finds. Deterministic.

    Args:
        goal_bytes: a peak that is good enough, such as a memory's capacity: the compiled search seeks it first.

    Raises:
        InternalError: fixed items overlap in bytes and time.
    """
    grain = packing.grain_bytes
    bound, step = max_live(packing)
    live = tuple(packing.items[i].id for i in packing.live_at(step))
    if not packing.items:
        return Solution({}, 0, 0, Certificate("bound", 0, (), "nothing to place", 0))

    method, offsets = first_fit.best_of_orders(packing, bound)
    best = packing.peak(offsets)
    nodes = 0
    if best > bound:
        # Short: what a directed search finds at all it mostly finds at once.
        outcome = search.fit_within(packing, bound, min(limits.search_nodes, 40 * len(packing.items) + 200))
        nodes += outcome.nodes
        if outcome.offsets is not None:
            method, offsets, best = "branch and bound", outcome.offsets, packing.peak(outcome.offsets)
        elif outcome.exhausted:
            bound += grain
    if best > bound:
        climbed = climb.hill_climb(packing, offsets, bound, limits.climb_steps, limits.seed)
        if packing.peak(climbed) < best:
            method, offsets, best = "hill climb", climbed, packing.peak(climbed)
    while best > bound and nodes < limits.search_nodes:
        # Peaks just below the best one: each answer improves it or proves it.
        outcome = search.fit_within(packing, best - grain, limits.search_nodes - nodes)
        nodes += outcome.nodes
        if outcome.offsets is not None:
            method, offsets, best = "branch and bound", outcome.offsets, packing.peak(outcome.offsets)
        elif outcome.exhausted:
            bound = best
    if best > bound and limits.solver_nodes and race.is_installed():
        solved = _close_in(packing, bound, best, limits.solver_nodes, goal_bytes)
        nodes += solved.nodes
        bound = solved.bound
        if solved.offsets is not None:
            method, offsets, best = solved.method, solved.offsets, packing.peak(solved.offsets)
    packing.check(offsets)
    live_bound = max_live(packing)[0]
    reason: Reason = "open" if best > bound else ("bound" if best == live_bound else "exhausted")
    return Solution(
        offsets_bytes={item.id: offset for item, offset in zip(packing.items, offsets, strict=True)},
        peak_bytes=best,
        lower_bound_bytes=bound,
        certificate=Certificate(reason, step, live, method, nodes),
    )


@dataclass(frozen=True)
class _Closed:
    """offsets: a better packing, or None. bound: what is proven. method: who found the packing."""

    offsets: list[int] | None
    bound: int
    nodes: int
    method: str


def _close_in(packing: Packing, bound: int, best: int, max_nodes: int, goal: int | None) -> _Closed:
    """Narrow [bound, best] by the extra's solvers: the goal first, then the bound, then halving what is left.

    A capacity at which they give up moves later ones towards the best peak, but no bound.
    """
    grain = packing.grain_bytes
    offsets: list[int] | None = None
    method = ""
    left = max_nodes
    easy = bound  # below this, the search has given up
    goal = None if goal is None else goal // grain * grain
    wanted = goal if goal is not None and bound <= goal < best else bound
    while left > 0 and bound < best and easy < best:
        result = race.fit_within(packing, wanted, max(2 * left // 3 if wanted == goal else left // 4, 1000))
        outcome = result.outcome
        left -= max(outcome.nodes, 1)
        if outcome.offsets is not None:
            offsets, best, method = outcome.offsets, packing.peak(outcome.offsets), result.method
        elif outcome.exhausted:
            bound = wanted + grain
        else:
            easy = wanted + grain
        easy = max(easy, bound)
        first_bound = wanted == goal and bound < wanted
        wanted = bound if first_bound else (easy + best - grain) // 2 // grain * grain
    return _Closed(offsets, bound, max_nodes - left, method)


__all__ = ["Certificate", "Effort", "Item", "Rules", "Solution", "pack", "solve"]
