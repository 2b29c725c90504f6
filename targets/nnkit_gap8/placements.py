"""What plans of one build search for, each once: plans that keep more and more room for code ask the same again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from nnkit.memory.engine import Effort
from nnkit.memory.lifetimes import Storages, choose_storages
from nnkit.memory.placing import place
from nnkit.memory.problem import Placement, Problem
from nnkit.program import Program


class Placements:
    """Answers of `choose_storages` and `place`, remembered. For one build: it forgets nothing."""

    def __init__(self, effort: Effort | None = None) -> None:
        self._effort = effort
        # With its program, whose identity is in the key.
        self._storages: dict[Hashable, tuple[Program, Storages]] = {}
        self._known: dict[str, Placement] = {}

    def storages(
        self, program: Program, extra_bytes: Sequence[int], alignment_bytes: int, overwriting: Sequence[int] = ()
    ) -> Storages:
        """See `choose_storages`."""
        key = id(program), tuple(extra_bytes), alignment_bytes, tuple(overwriting)
        if key not in self._storages:
            self._storages[key] = program, choose_storages(program, extra_bytes, alignment_bytes, overwriting)
        return self._storages[key][1]

    def of(self, problem: Problem) -> Placement:
        """See `place`."""
        key = repr(problem)  # all of it; requests hold mappings, which have no hash
        if key not in self._known:
            self._known[key] = place(problem, self._effort)
        return self._known[key]
