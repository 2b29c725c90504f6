"""Which program a trial of the search runs on which samples, and what may veto it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from nnkit.distance import Distance
from nnkit.mixed_precision.diagnosis import Diagnosis, OutputPair, confirmer, measurer
from nnkit.mixed_precision.search import Candidate, LayerSet, Trial, search_confirmed
from nnkit.samples import Sample

NONE: LayerSet = frozenset()
ONE: LayerSet = frozenset({"a"})


class Recorded:
    """Stands for a Diagnosis: notes what is run, and is 3 dB better in trials than in builds."""

    def __init__(self, *, trials_are_builds: bool) -> None:
        self.trials_are_builds = trials_are_builds
        self.runs: list[tuple[str, bool]] = []

    def reference(self, samples: Sequence[Sample]) -> list[Mapping[str, Any]]:
        return [{} for _ in samples]

    def outputs(
        self, layers: LayerSet, samples: Sequence[Sample], reference: object, kept: str | None, *, build: bool = False
    ) -> tuple[Distance, list[OutputPair]]:
        self.runs.append((samples[0].source, build))
        better = 0.0 if build and not self.trials_are_builds else 3.0
        return Distance(1.0, 30.0 + 10.0 * len(layers) + better, 0.0), []


def at_least(limit: float) -> Any:
    return lambda name, distance, pairs: "" if distance.sqnr_db >= limit else f"below {limit:g}"


CALIBRATION, HELD_OUT = [Sample("calibration", {})], [Sample("verification", {})]
BOTH = {"calibration": CALIBRATION, "verification": HELD_OUT}


@pytest.mark.parametrize("exact", [True, False])
def test_what_fails_on_the_first_set_runs_nowhere_else(exact: bool) -> None:
    diagnosis = Recorded(trials_are_builds=exact)
    trial = measurer(cast("Diagnosis", diagnosis), BOTH, at_least(40.0))(NONE)
    assert trial.failure == "below 40 on the calibration images"
    assert diagnosis.runs == [("calibration", False)]


def test_what_passes_runs_on_the_others_too() -> None:
    diagnosis = Recorded(trials_are_builds=False)
    trial = measurer(cast("Diagnosis", diagnosis), BOTH, at_least(42.0))(ONE)
    assert trial.passed
    assert diagnosis.runs == [("calibration", False), ("verification", False)]


@pytest.mark.parametrize("exact", [True, False])
def test_a_choice_is_confirmed_where_a_trial_is_not_the_build(exact: bool) -> None:
    diagnosis = Recorded(trials_are_builds=exact)
    failure = confirmer(cast("Diagnosis", diagnosis), BOTH, at_least(42.0))(ONE)  # the build has 40
    assert failure == ("" if exact else "below 42 on the verification images, as a build has it")
    assert diagnosis.runs == ([] if exact else [("verification", True)])


def test_a_choice_that_fails_as_a_build_is_not_made_and_nothing_is_measured_twice() -> None:
    candidates = [Candidate(name, 1) for name in "abc"]
    measured: list[LayerSet] = []
    confirmed: list[LayerSet] = []

    def measure(layers: LayerSet) -> Trial:
        measured.append(layers)
        return Trial(layers, 1.0, 30.0 + 4.0 * len(layers), 0.0, "" if layers else "too few")

    def confirm(layers: LayerSet) -> str:
        confirmed.append(layers)
        return "" if len(layers) >= 2 else "too few in full"

    result = search_confirmed(candidates, measure, confirm)
    assert result.chosen is not None
    assert len(result.chosen) == 2
    assert result.certificate == "minimum"
    assert [len(layers) for layers in confirmed] == [1, 1, 1, 2]
    assert len(measured) == len(set(measured))
    never = search_confirmed(candidates, measure, lambda layers: "never")
    assert never.chosen is None
    assert never.everything.failure == "never"


def test_without_a_judge_everything_passes_on_one_set() -> None:
    diagnosis = Recorded(trials_are_builds=False)
    seen = []
    trial = measurer(cast("Diagnosis", diagnosis), BOTH, None, seen.append)(NONE)
    assert trial.passed
    assert diagnosis.runs == [("calibration", False)]
    assert seen == [trial]
