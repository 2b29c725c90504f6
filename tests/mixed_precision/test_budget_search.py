"""The search for a budget: against exhaustive search on made-up networks, and its list."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.mixed_precision.budget import pareto_by_cost, search_budget, sensitivities
from nnkit.mixed_precision.search import Candidate, LayerSet, Trial

NAMES = tuple("abcdef")


def measured_by(noise: Callable[[LayerSet], float], log: list[LayerSet]) -> Callable[[LayerSet], Trial]:
    def measure(layers: LayerSet) -> Trial:
        log.append(layers)
        level = noise(layers)
        return Trial(layers, 1.0 - level, -10.0 * math.log10(level) if level else math.inf, level)

    return measure


def additive(shares: dict[str, float]) -> Callable[[LayerSet], float]:
    return lambda layers: 1e-3 * (0.01 + sum(share for name, share in shares.items() if name not in layers))


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 100), min_size=6, max_size=6),
    st.lists(st.integers(0, 50), min_size=6, max_size=6),
    st.integers(0, 200),
)
def test_within_the_budget_and_close_to_the_best(shares: list[int], costs: list[int], budget: int) -> None:
    noise = additive(dict(zip(NAMES, shares, strict=True)))
    candidates = [Candidate(name, cost) for name, cost in zip(NAMES, costs, strict=True)]
    log: list[LayerSet] = []
    result = search_budget(candidates, measured_by(noise, log), budget)
    assert len(log) == len(set(log))  # each set is measured once
    price = dict(zip(NAMES, costs, strict=True))
    assert result.cost == sum(price[name] for name in result.chosen) <= budget
    every = [frozenset(c) for size in range(7) for c in combinations(NAMES, size)]
    best = min(noise(layers) for layers in every if sum(price[name] for name in layers) <= budget)
    # Greedy with exchange on a knapsack: never below half of what there is to remove.
    assert noise(frozenset()) - noise(frozenset(result.chosen)) >= 0.5 * (noise(frozenset()) - best)


def test_dear_layer_that_gains_most_is_found_by_exchange() -> None:
    noise = additive({"a": 10.0, "b": 6.0, "c": 6.0})
    candidates = [Candidate("a", 10), Candidate("b", 7), Candidate("c", 7)]
    result = search_budget(candidates, measured_by(noise, []), 10)
    assert result.chosen == ("a",)


def test_ranking_and_gain_per_cost() -> None:
    noise = additive({"a": 4.0, "b": 5.0, "c": 0.99})
    found = sensitivities([Candidate("a", 2), Candidate("b", 10), Candidate("c", 0)], measured_by(noise, []))
    assert [layer.name for layer in found] == ["b", "a", "c"]
    assert found[0].removed == pytest.approx(0.5)
    assert found[1].per_cost == pytest.approx(0.2)
    assert found[2].per_cost == math.inf


def test_pareto_list_holds_what_nothing_cheaper_beats() -> None:
    rng = np.random.default_rng(0)
    candidates = [Candidate(name, int(cost)) for name, cost in zip(NAMES, rng.integers(1, 9, 6), strict=True)]
    price = {candidate.name: candidate.extra_bytes for candidate in candidates}
    measure = measured_by(lambda layers: float(rng.uniform(0.1, 1.0)), [])
    trials = [measure(frozenset(c)) for size in range(7) for c in combinations(NAMES, size)]
    listed = pareto_by_cost(trials, candidates)

    def cost(trial: Trial) -> int:
        return sum(price[name] for name in trial.layers)

    for trial in trials:
        beaten = any(cost(t) <= cost(trial) and t.noise <= trial.noise and t is not trial for t in trials)
        assert (trial in listed) == (not beaten)
