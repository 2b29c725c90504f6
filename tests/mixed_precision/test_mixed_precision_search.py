"""The search for 16-bit layers: against exhaustive search on made-up and on real small networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from nnkit.distance import Distance
from nnkit.graph import Model
from nnkit.mixed_precision.diagnosis import Diagnosis, OutputPair, measurer
from nnkit.mixed_precision.search import Candidate, LayerSet, Trial, pareto, search
from nnkit.quantize import FixedPointScheme
from nnkit.quantize.lowering import lower
from nnkit.samples import Sample
from nnkit.verify.tasks import OneOutput
from tests.quantize.conftest import float_values, make_model, stats_of

NAMES = tuple("abcdef")


def measured_by(noise: Callable[[LayerSet], float], limit: float, log: list[LayerSet]) -> Callable[[LayerSet], Trial]:
    def measure(layers: LayerSet) -> Trial:
        log.append(layers)
        level = noise(layers)
        return Trial(layers, 1.0 - level, -10 * math.log10(level), level, "" if level <= limit else "too loud")

    return measure


def subsets(names: tuple[str, ...]) -> list[LayerSet]:
    return [frozenset(part) for size in range(len(names) + 1) for part in combinations(names, size)]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(0.001, 1.0), min_size=6, max_size=6),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.floats(0.0, 1.0)), max_size=4),
    st.floats(0.0, 1.0),
    st.integers(0, 60),
)
def test_no_smaller_set_passes_a_minimum_and_no_layer_of_an_irreducible_one_is_idle(
    own: list[float], pairs: list[tuple[str, str, float]], share: float, most_trials: int
) -> None:
    """Noise of single layers, and noise of pairs that goes only when both have 16 bits (no greedy choice sees it)."""

    def noise(layers: LayerSet) -> float:
        single = sum(level for name, level in zip(NAMES, own, strict=True) if name not in layers)
        return 1e-6 + single + sum(level for a, b, level in pairs if not {a, b} <= layers)

    limit = noise(frozenset(NAMES)) + share * (noise(frozenset()) - noise(frozenset(NAMES)))
    log: list[LayerSet] = []
    found = search([Candidate(n) for n in NAMES], measured_by(noise, limit, log), most_trials=most_trials)
    assert found.chosen is not None
    chosen = frozenset(found.chosen)
    assert noise(chosen) <= limit
    assert len(log) == len(set(log)), "a set is measured once"
    fewest = min(len(layers) for layers in subsets(NAMES) if noise(layers) <= limit)
    if found.certificate == "minimum":
        assert len(chosen) == fewest
    else:
        assert found.smaller_sets > most_trials
        assert all(noise(chosen - {name}) > limit for name in chosen)
    assert found.smaller_sets == sum(1 for layers in subsets(NAMES) if len(layers) < len(chosen))
    assert [name for name, _ in found.needed] == list(found.chosen)
    assert all(not trial.passed and trial.layers == chosen - {name} for name, trial in found.needed)


def test_of_single_layers_that_pass_the_cheapest_is_taken() -> None:
    noise = {"a": 0.1, "b": 0.2, "c": 0.9}

    def level(layers: LayerSet) -> float:
        return min([1.0, *(noise[name] for name in layers)])

    candidates = [Candidate("a", 100), Candidate("b", 10), Candidate("c", 1)]
    found = search(candidates, measured_by(level, 0.3, []))
    assert (found.chosen, found.certificate) == (("b",), "minimum")


def test_gates_that_nothing_passes_leave_no_choice_and_the_best_is_known() -> None:
    def level(layers: LayerSet) -> float:
        return 1.0 / (1 + len(layers))

    found = search([Candidate(n) for n in NAMES], measured_by(level, 0.01, []))
    assert found.chosen is None
    assert found.best.layers == found.everything.layers == frozenset(NAMES)
    assert len(found.trials) == 2, "nothing else is tried in vain"


@given(st.lists(st.tuples(st.sampled_from(subsets(NAMES[:4])), st.integers(1, 9)), min_size=1, max_size=12))
def test_pareto_holds_just_the_sets_that_no_other_beats(pairs: list[tuple[LayerSet, int]]) -> None:
    trials = [Trial(s, 1.0, -float(level), 0.0) for s, level in dict(pairs).items()]
    found = pareto(trials, [Candidate(n) for n in NAMES])
    levels = {(len(t.layers), t.sqnr_db) for t in trials}
    best = {
        (count, db) for count, db in levels if not any((c <= count and d >= db) for c, d in levels - {(count, db)})
    }
    assert {(len(t.layers), t.sqnr_db) for t in found} == best
    assert len(found) == len(best)


def chain(weights: list[np.ndarray]) -> Model:
    """conv1 -> conv2 -> ..., no activations."""
    names = ["x", *(f"v{i}" for i in range(1, len(weights))), "y"]
    nodes = [
        helper.make_node("Conv", [names[i], f"w{i}"], [names[i + 1]], name=f"conv{i}") for i in range(len(weights))
    ]
    return make_model(
        nodes, {f"w{i}": w.astype(np.float32) for i, w in enumerate(weights)}, {"x": (1, 4, 6, 6)}, ["y"]
    )


def sensitive_chain(sensitive: int, layers: int = 5) -> Model:
    """1x1 convolutions whose weights 8 bits hold exactly, but for one: its weights span a range that they do not.

    Large weights act on a channel that the layer after it ignores; the small ones that count vanish in 8 bits.
    """
    rng = np.random.default_rng(5)
    weights = []
    for index in range(layers):
        signs = np.eye(4) + 0.25 * rng.integers(-1, 2, (4, 4))
        signs[3] = 0.0
        signs[:, 3] = 0.0
        if index == sensitive:
            signs[:3, :3] *= rng.uniform(0.0035, 0.0045, (3, 3))
            signs[3, 0] = 1.0
        weights.append(signs.reshape(4, 4, 1, 1))
    return chain(weights)


def diagnosis_of(model: Model) -> tuple[Diagnosis, list[Sample]]:
    rng = np.random.default_rng(7)
    samples = [Sample(str(i), {"x": rng.uniform(-1, 1, (1, 4, 6, 6)).astype(np.float32)}) for i in range(2)]
    values = [float_values(model, dict(sample.inputs)) for sample in samples]
    together = {name: np.stack([v[name] for v in values]) for name in values[0]}
    return Diagnosis(model, model, lower(model), stats_of(together), FixedPointScheme(bits=8)), samples


@pytest.mark.parametrize("sensitive", [1, 3])
def test_a_layer_made_sensitive_is_found_and_only_it(sensitive: int) -> None:
    diagnosis, samples = diagnosis_of(sensitive_chain(sensitive))
    assert [layer.name for layer in diagnosis.layers] == [f"conv{i}" for i in range(5)]

    def judge(name: str, distance: Distance, pairs: Sequence[OutputPair]) -> str:
        return "" if distance.cosine >= 0.995 else "cosine"

    measure = measurer(diagnosis, {"calibration": samples}, judge)
    assert not measure(frozenset()).passed
    found = search(diagnosis.candidates, measure)
    assert found.chosen == (f"conv{sensitive}",)
    tagged = {op.name for op in diagnosis.program(frozenset(found.chosen)).ops if "hp" in op.tags}
    assert tagged == set(found.chosen)


@pytest.mark.parametrize("limit_db", [20.0, 28.0, 34.0, 40.0, 50.0])
def test_exhaustive_search_over_a_real_network_finds_no_smaller_set(limit_db: float) -> None:
    rng = np.random.default_rng(11)
    diagnosis, samples = diagnosis_of(chain([rng.normal(0, 0.5, (4, 4, 1, 1)) for _ in range(5)]))

    def judge(name: str, distance: Distance, pairs: Sequence[OutputPair]) -> str:
        return "" if distance.sqnr_db >= limit_db else "sqnr_db"

    measure = measurer(diagnosis, {"calibration": samples}, judge)
    found = search(diagnosis.candidates, measure)
    names = tuple(layer.name for layer in diagnosis.layers)
    passing = [layers for layers in subsets(names) if measure(layers).passed]
    assert found.chosen is not None
    assert found.certificate == "minimum"
    assert len(found.chosen) == min(len(layers) for layers in passing)


def test_a_second_sample_set_can_veto_what_passes_on_the_first() -> None:
    diagnosis, samples = diagnosis_of(sensitive_chain(1))
    loud = [Sample("loud", {"x": np.full((1, 4, 6, 6), 40.0, np.float32)})]  # far beyond the calibrated range
    measure = measurer(
        diagnosis,
        {"calibration": samples, "verification": loud},
        lambda name, distance, pairs: "" if distance.sqnr_db >= 10 else "sqnr_db: low",
    )
    trial = measure(frozenset({"conv1"}))
    assert trial.sqnr_db >= 10, "the numbers are the first set's"
    assert trial.failure == "sqnr_db: low on the verification images"


def test_a_judge_sees_both_networks_outputs_of_every_sample() -> None:
    diagnosis, samples = diagnosis_of(sensitive_chain(1))
    seen: list[int] = []

    def judge(name: str, distance: Distance, pairs: Sequence[OutputPair]) -> str:
        seen.append(len(pairs))
        total = sum(float(np.square(floats - program).sum()) for floats, program in pairs)
        signal = sum(float(np.square(floats).sum()) for floats, _ in pairs)
        assert 10 * np.log10(signal / total) == pytest.approx(distance.sqnr_db, abs=1e-6)
        return ""

    (output,) = diagnosis.program(frozenset()).outputs
    measurer(diagnosis, {"calibration": samples}, judge, read=OneOutput(output))(frozenset())
    assert seen == [len(samples)]
