"""Mixed precision: the fewest layers in 16 bits with which an 8-bit network passes its gates.

The search knows layers by name, what each costs, and a function that measures a set of them: the Program is built
with those layers in 16 bits and executed by the bit-exact simulator. It goes in four steps, all deterministic:

1. none, all, and every layer alone in 16 bits: the ranking by sensitivity, and whether the gates can be met at all;
2. greedy, from both ends: from none the layer that removes most noise is added until the gates pass, from all the
   one that adds least is put back while they do. What a layer changes is measured again in the company of the others
   before it is moved (lazily: only while it could still be the best);
3. backward elimination: a layer without which the gates still pass is put back to 8 bits, until none is left; of the
   two sets the smaller one is taken;
4. where no more than `most_trials` smaller sets exist they are all tried, and the result is then a `minimum`: no
   smaller set passes. Otherwise it is `irreducible`: no layer of it can be left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, TypeAlias

LayerSet: TypeAlias = frozenset[str]
Certificate: TypeAlias = Literal["minimum", "irreducible", "budget"]
MOST_TRIALS = 150
"""Sets tried at most for the proof that no smaller set passes."""


@dataclass(frozen=True)
class Candidate:
    """A layer that may run in 16 bits. extra_bytes: what its weights then take more than in 8."""

    name: str
    extra_bytes: int = 0


@dataclass(frozen=True)
class Trial:
    """What was measured with one set of layers in 16 bits. failure: the gate that did not hold; empty: all did."""

    layers: LayerSet
    cosine: float
    sqnr_db: float
    max_abs: float
    failure: str = ""

    @property
    def passed(self) -> bool:
        """Whether every gate held."""
        return not self.failure

    @property
    def noise(self) -> float:
        """Power of the error relative to the signal; infinite where nothing could be measured."""
        return math.inf if math.isnan(self.sqnr_db) else 10.0 ** (-self.sqnr_db / 10.0)


@dataclass(frozen=True)
class SearchResult:
    """What the search came to.

    chosen: names in the order of the candidates; None where even all layers in 16 bits do not pass.
    trials: every set measured, in order. needed: by chosen layer, the trial of the set without it.
    smaller_sets: how many sets smaller than the chosen one exist (all of them fail for a `minimum`).
    """

    chosen: tuple[str, ...] | None
    certificate: Certificate
    trials: tuple[Trial, ...]
    needed: tuple[tuple[str, Trial], ...] = ()
    smaller_sets: int = 0

    def of(self, layers: LayerSet) -> Trial:
        """The trial of a set that was measured. Raises KeyError."""
        return {trial.layers: trial for trial in self.trials}[layers]

    @property
    def everything(self) -> Trial:
        """The trial with most layers in 16 bits."""
        return max(self.trials, key=lambda trial: len(trial.layers))

    @property
    def best(self) -> Trial:
        """The most accurate trial."""
        return min(self.trials, key=lambda trial: (trial.noise, len(trial.layers)))


def search(
    candidates: Sequence[Candidate],
    measure: Callable[[LayerSet], Trial],
    *,
    most_trials: int = MOST_TRIALS,
) -> SearchResult:
    """The fewest candidates in 16 bits whose set passes; among single layers and proven sizes the cheapest.

    measure: builds and runs the network with a set of layers in 16 bits; called once for each set.
    """
    return _Search(candidates, measure, most_trials).run()


def search_confirmed(
    candidates: Sequence[Candidate],
    measure: Callable[[LayerSet], Trial],
    confirm: Callable[[LayerSet], str],
    *,
    most_trials: int = MOST_TRIALS,
) -> SearchResult:
    """`search`, where a trial is not all of a build: the chosen set has to hold as a build too.

    confirm: builds the set in full; the gate that it fails then, in words, empty where none does. A set that fails
        counts as failing from then on, and the search goes on without it. No set is measured twice.
    """
    known: dict[LayerSet, Trial] = {}

    def remembered(layers: LayerSet) -> Trial:
        if layers not in known:
            known[layers] = measure(layers)
        return known[layers]

    while True:
        result = search(candidates, remembered, most_trials=most_trials)
        if result.chosen is None:
            return result
        chosen = frozenset(result.chosen)
        failure = confirm(chosen)
        if not failure:
            return result
        known[chosen] = replace(known[chosen], failure=failure)


def pareto(trials: Sequence[Trial], candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
    """The trials that no other one beats: more accurate than all with as many or fewer layers."""
    cost = {candidate.name: candidate.extra_bytes for candidate in candidates}
    front: list[Trial] = []
    ordered = sorted(trials, key=lambda t: (len(t.layers), t.noise, sum(cost[n] for n in t.layers), sorted(t.layers)))
    for trial in ordered:
        if not front or trial.noise < front[-1].noise:
            front.append(trial)
    return tuple(front)


class _Search:
    def __init__(
        self, candidates: Sequence[Candidate], measure: Callable[[LayerSet], Trial], most_trials: int
    ) -> None:
        self._names = [candidate.name for candidate in candidates]
        self._cost = {candidate.name: candidate.extra_bytes for candidate in candidates}
        self._measure = measure
        self._most_trials = most_trials
        self._trials: dict[LayerSet, Trial] = {}

    def run(self) -> SearchResult:
        everything = frozenset(self._names)
        if self._passes(frozenset()):
            return self._result(frozenset(), "minimum")
        if not self._passes(everything):
            return self._result(None, "minimum")
        alone = [frozenset({name}) for name in self._names]
        passing = [layers for layers in alone if self._passes(layers)]
        if passing:
            return self._result(min(passing, key=self._order), "minimum")
        ends = [self._eliminate(self._grow()), self._eliminate(self._shrink(everything))]
        chosen = min(ends, key=lambda layers: (len(layers), self._order(layers)))
        smaller = self._smaller_sets(len(chosen))
        if smaller > self._most_trials:
            return self._result(chosen, "irreducible")
        for size in range(2, len(chosen)):
            passing = [frozenset(part) for part in combinations(self._names, size) if self._passes(frozenset(part))]
            if passing:
                chosen = min(passing, key=self._order)
                break
        return self._result(chosen, "minimum")

    def _trial(self, layers: LayerSet) -> Trial:
        if layers not in self._trials:
            self._trials[layers] = self._measure(layers)
        return self._trials[layers]

    def _passes(self, layers: LayerSet) -> bool:
        return self._trial(layers).passed

    def _order(self, layers: LayerSet) -> tuple[int, float, list[int]]:
        """Cheapest first, then the most accurate, then by position in the network."""
        cost = sum(self._cost[name] for name in layers)
        return cost, self._trial(layers).noise, sorted(self._names.index(name) for name in layers)

    def _grow(self) -> LayerSet:
        """From none: add what removes most noise until the set passes."""
        chosen: LayerSet = frozenset()
        left = {name: self._trial(frozenset({name})).noise for name in self._names}  # noise once it is added
        while not self._passes(chosen):
            base = self._trial(chosen).noise
            best = self._quietest(left, chosen, frozenset.union)
            gained = base - left.pop(best) if math.isfinite(base) else 0.0
            chosen |= {best}
            # What the others leave, if they gain as much as they did before: optimistic, so that they are measured.
            left = {name: max(noise - gained, 0.0) for name, noise in left.items()}
        return chosen

    def _shrink(self, chosen: LayerSet) -> LayerSet:
        """From all: put back what adds least noise while the set passes."""
        left = {name: self._trial(chosen - {name}).noise for name in self._names}  # noise once it is put back
        while True:
            base = self._trial(chosen).noise
            best = self._quietest(left, chosen, frozenset.difference)
            if not self._passes(chosen - {best}):
                return chosen
            added = left.pop(best) - base
            chosen -= {best}
            left = {name: noise + added for name, noise in left.items()}

    def _quietest(
        self, noise: dict[str, float], chosen: LayerSet, move: Callable[[LayerSet, LayerSet], LayerSet]
    ) -> str:
        """The name with the least noise once it is moved into or out of `chosen`.

        Estimates in `noise` are measured while they lead.
        """
        measured: set[str] = set()
        while True:
            best = min(noise, key=lambda name: (noise[name], self._cost[name], self._names.index(name)))
            if best in measured:
                return best
            noise[best] = self._trial(move(chosen, frozenset({best}))).noise
            measured.add(best)

    def _eliminate(self, chosen: LayerSet) -> LayerSet:
        while True:
            passing = [chosen - {name} for name in self._names if name in chosen and self._passes(chosen - {name})]
            if not passing:
                return chosen
            chosen = min(passing, key=lambda layers: (self._trial(layers).noise, self._order(layers)))

    def _smaller_sets(self, size: int) -> int:
        return sum(math.comb(len(self._names), k) for k in range(size))

    def _result(self, chosen: LayerSet | None, certificate: Certificate) -> SearchResult:
        needed = tuple(
            (name, self._trial(chosen - {name})) for name in self._names if chosen is not None and name in chosen
        )
        return SearchResult(
            None if chosen is None else tuple(name for name in self._names if name in chosen),
            certificate,
            tuple(self._trials.values()),
            needed,
            0 if chosen is None else self._smaller_sets(len(chosen)),
        )
