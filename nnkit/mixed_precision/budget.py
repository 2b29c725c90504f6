"""Mixed precision for a budget: the most accurate set of layers in higher precision that costs no more.

The counterpart of `search`, which looks for the fewest layers that pass a gate. Both know layers by name, what each
costs, and a function `measure` that builds and runs the network with a set of them, whatever its arithmetic is: 16
bits instead of 8, float instead of integers, another placement.

1. none, and every layer alone that the budget can pay: the ranking by noise removed, and by noise removed per cost;
2. greedy from none: the layer that removes most noise per cost is added while the budget lasts; gains are measured
   again in the company of the others before a layer is added, while they could still be the best;
3. exchange: one layer of the set against one or no other that the budget then pays, while that removes noise;
4. of everything that was measured within the budget the most accurate set is taken; all of it gives the Pareto list
   (noise against cost).

Deterministic; a greedy search and no proof of optimality.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnkit.mixed_precision.search import Candidate, LayerSet, SearchResult, Trial

MOST_EXCHANGES = 60
"""Sets that are measured at most by exchanging layers."""


@dataclass(frozen=True)
class Sensitivity:
    """What one layer gains alone in higher precision.

    removed: share of the noise of no layer in higher precision that is gone (negative where it grows).
    per_cost: that share per unit of cost; infinite for a layer that gains and costs nothing.
    """

    name: str
    cost: int
    removed: float

    @property
    def per_cost(self) -> float:
        """The gain per unit of cost."""
        if self.cost == 0:
            return math.inf if self.removed > 0.0 else 0.0
        return self.removed / self.cost


@dataclass(frozen=True)
class BudgetResult:
    """What the search came to.

    chosen: names in the order of the candidates. trials: every set measured, in order. pareto: from cheap to dear,
    the sets that nothing at most as dear beats. sensitivities: by noise removed, most first.
    """

    chosen: tuple[str, ...]
    cost: int
    trials: tuple[Trial, ...]
    pareto: tuple[Trial, ...]
    sensitivities: tuple[Sensitivity, ...]


def sensitivities(candidates: Sequence[Candidate], measure: Callable[[LayerSet], Trial]) -> tuple[Sensitivity, ...]:
    """Every candidate alone in higher precision, ranked by the noise that it removes."""
    base = measure(frozenset())
    measured = [sensitivity(candidate, base, measure(frozenset({candidate.name}))) for candidate in candidates]
    return tuple(sorted(measured, key=lambda layer: -layer.removed))


def search_budget(candidates: Sequence[Candidate], measure: Callable[[LayerSet], Trial], budget: int) -> BudgetResult:
    """The most accurate set found whose `extra_bytes` (or what else `Candidate` counts) do not exceed `budget`.

    measure: called once for each set; its gates do not matter here.
    """
    return _BudgetSearch(candidates, measure, budget).run()


def as_search_result(result: BudgetResult, measure: Callable[[LayerSet], Trial]) -> SearchResult:
    """In the form of `search`, for reports: with what is lost where one of the chosen layers is left out."""
    chosen = frozenset(result.chosen)
    known = {trial.layers: trial for trial in result.trials}
    needed = []
    for name in result.chosen:
        rest = chosen - {name}
        if rest not in known:
            known[rest] = measure(rest)
        needed.append((name, known[rest]))
    return SearchResult(result.chosen, "budget", tuple(known.values()), tuple(needed))


def pareto_by_cost(trials: Sequence[Trial], candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
    """The trials with less noise than every one that costs as much or less, from cheap to dear."""
    cost = {candidate.name: candidate.extra_bytes for candidate in candidates}

    def price(trial: Trial) -> int:
        return sum(cost[name] for name in trial.layers)

    front: list[Trial] = []
    for trial in sorted(trials, key=lambda t: (price(t), t.noise, len(t.layers), sorted(t.layers))):
        if not front or trial.noise < front[-1].noise:
            front.append(trial)
    return tuple(front)


def sensitivity(candidate: Candidate, base: Trial, alone: Trial) -> Sensitivity:
    """What a candidate gains, from the trials of no layer and of this one alone in higher precision."""
    known = math.isfinite(base.noise) and base.noise > 0.0
    removed = 1.0 - alone.noise / base.noise if known else 0.0
    return Sensitivity(candidate.name, candidate.extra_bytes, removed)


class _BudgetSearch:
    def __init__(self, candidates: Sequence[Candidate], measure: Callable[[LayerSet], Trial], budget: int) -> None:
        self._candidates = tuple(candidates)
        self._cost = {candidate.name: candidate.extra_bytes for candidate in candidates}
        self._order = {candidate.name: index for index, candidate in enumerate(candidates)}
        self._measure = measure
        self._budget = budget
        self._trials: dict[LayerSet, Trial] = {}

    def run(self) -> BudgetResult:
        affordable = [candidate for candidate in self._candidates if candidate.extra_bytes <= self._budget]
        ranking = sensitivities(affordable, self._trial)
        self._exchange(self._grow(ranking))
        within = [trial for trial in self._trials.values() if self._price(trial.layers) <= self._budget]
        best = min(within, key=lambda t: (t.noise, self._price(t.layers), len(t.layers), self._positions(t.layers)))
        return BudgetResult(
            tuple(name for name in self._order if name in best.layers),
            self._price(best.layers),
            tuple(self._trials.values()),
            pareto_by_cost(tuple(self._trials.values()), self._candidates),
            ranking,
        )

    def _trial(self, layers: LayerSet) -> Trial:
        if layers not in self._trials:
            self._trials[layers] = self._measure(layers)
        return self._trials[layers]

    def _price(self, layers: LayerSet) -> int:
        return sum(self._cost[name] for name in layers)

    def _positions(self, layers: LayerSet) -> list[int]:
        return sorted(self._order[name] for name in layers)

    def _grow(self, ranking: Sequence[Sensitivity]) -> LayerSet:
        chosen: LayerSet = frozenset()
        gains = {layer.name: layer.removed for layer in ranking}  # optimistic: alone a layer gains most
        while True:
            left = self._budget - self._price(chosen)
            gains = {name: gain for name, gain in gains.items() if self._cost[name] <= left}
            best = self._best_gain(gains, chosen)
            if best is None:
                return chosen
            chosen |= {best}
            del gains[best]

    def _best_gain(self, gains: dict[str, float], chosen: LayerSet) -> str | None:
        """The layer with most noise removed per cost beside `chosen`; None where none removes any."""
        start, base = self._trial(frozenset()).noise, self._trial(chosen).noise
        measured: set[str] = set()
        while gains:
            best = max(gains, key=lambda name: (gains[name] / max(self._cost[name], 1), -self._order[name]))
            if gains[best] <= 0.0:
                return None
            if best in measured:
                return best
            gains[best] = (base - self._trial(chosen | {best}).noise) / start if 0.0 < start < math.inf else 0.0
            measured.add(best)
        return None

    def _exchange(self, chosen: LayerSet) -> None:
        tried = 0
        improved = True
        while improved:
            improved = False
            base = self._trial(chosen).noise
            for out in sorted(chosen, key=self._order.__getitem__):
                rest = chosen - {out}
                left = self._budget - self._price(rest)
                for name in (*(n for n in self._order if n not in chosen and self._cost[n] <= left), None):
                    other = rest if name is None else rest | {name}
                    if other in self._trials:
                        continue
                    if tried == MOST_EXCHANGES:
                        return
                    tried += 1
                    if self._trial(other).noise < base:
                        chosen, improved = other, True
                        break
                if improved:
                    break
