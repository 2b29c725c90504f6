"""Placements of L2, each problem solved once: plans that keep more and more room for code ask again."""

from __future__ import annotations

from nnkit.memory.engine import Effort
from nnkit.memory.placing import place
from nnkit.memory.problem import Placement, Problem


class Placements:
    """What `nnkit.memory.placing.place` answers, remembered. For one build: it forgets nothing."""

    def __init__(self, effort: Effort | None = None) -> None:
        self._effort = effort
        self._known: dict[str, Placement] = {}

    def of(self, problem: Problem) -> Placement:
        """See `place`."""
        key = repr(problem)  # all of it; requests hold mappings, which have no hash
        if key not in self._known:
            self._known[key] = place(problem, self._effort)
        return self._known[key]
