"""The two solvers of the extra `[solver]`, raced on one question: the compiled search and CP-SAT take turns.

Turns are counted in nodes and double, so that whichever answers first in that count wins on every machine. Neither is
needed: what is not installed, or does not know a packing's rules, takes no turns.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.memory import compiled, cp_sat
from nnkit.memory.packing import Packing
from nnkit.memory.search import Outcome

FIRST_TURN = 60_000
"""Nodes of the compiled search's first turn; CP-SAT, which has its presolve to do, begins with a third of it."""


@dataclass(frozen=True)
class Result:
    """outcome: see `search.fit_within`. method: who answered."""

    outcome: Outcome
    method: str


def is_installed() -> bool:
    """Whether any solver of the extra is there."""
    return compiled.is_installed() or cp_sat.is_installed()


def fit_within(packing: Packing, capacity_bytes: int, max_nodes: int) -> Result:
    """Search for a packing whose peak is at most `capacity_bytes`. Deterministic.

    Args:
        max_nodes: budget of both together; the outcome's nodes are what they used.
    """
    compiled_runs = compiled.is_installed() and compiled.applies(packing)
    cp_sat_runs = cp_sat.is_installed() and cp_sat.applies(packing)
    search = compiled.Search(packing, capacity_bytes) if compiled_runs else None
    used, turn = 0, FIRST_TURN
    while used < max_nodes and (search is not None or cp_sat_runs):
        if search is not None:
            outcome = search.advance(min(turn, max_nodes - used))
            used += max(outcome.nodes, 1)
            if outcome.offsets is not None or outcome.exhausted:
                return Result(Outcome(outcome.offsets, outcome.exhausted, used), "compiled branch and bound")
        if cp_sat_runs and used < max_nodes:
            share = turn // 3 if search is not None else turn
            outcome = cp_sat.fit_within(packing, capacity_bytes, min(share, max_nodes - used))
            used += max(outcome.nodes, 1)
            if outcome.offsets is not None or outcome.exhausted:
                return Result(Outcome(outcome.offsets, outcome.exhausted, used), "CP-SAT")
        turn *= 2
    return Result(Outcome(None, False, used), "")
