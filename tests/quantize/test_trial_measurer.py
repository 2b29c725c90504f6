"""Which program a trial of the search runs on which samples, and what may veto it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from nnkit.quantize.diagnose import Diagnosis, OutputPair, measurer
from nnkit.quantize.mixed_precision import LayerSet
from nnkit.verify.metrics import Distance
from nnkit.verify.samples import Sample

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


def test_what_passes_runs_on_the_others_as_a_build_has_it() -> None:
    diagnosis = Recorded(trials_are_builds=False)
    trial = measurer(cast("Diagnosis", diagnosis), BOTH, at_least(42.0))(ONE)
    assert trial.sqnr_db == 43.0  # of the trial: it guides the search
    assert trial.failure == "below 42 on the verification images"  # the build has 40
    assert diagnosis.runs == [("calibration", False), ("verification", True)]


def test_one_set_alone_is_run_twice_where_a_trial_is_not_the_build() -> None:
    only = {"verification": HELD_OUT}
    for exact, runs in ((True, [False]), (False, [False, True])):
        diagnosis = Recorded(trials_are_builds=exact)
        trial = measurer(cast("Diagnosis", diagnosis), only, at_least(42.0))(ONE)
        assert [build for _, build in diagnosis.runs] == runs
        assert trial.passed == exact


def test_without_a_judge_everything_passes_on_one_set() -> None:
    diagnosis = Recorded(trials_are_builds=False)
    seen = []
    trial = measurer(cast("Diagnosis", diagnosis), BOTH, None, seen.append)(NONE)
    assert trial.passed
    assert diagnosis.runs == [("calibration", False)]
    assert seen == [trial]
