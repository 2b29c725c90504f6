"""Which range method serves a network best, judged by the outputs on inputs that the ranges did not come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nnkit.calibrate.methods import METHODS, Method, by_method
from nnkit.calibrate.stats import CalibrationStats, Limits, MethodTrial
from nnkit.graph import Model
from nnkit.program import Program
from nnkit.quantize.judge import Gain, in_turns, mean_gain, most_judges, program_accuracy
from nnkit.quantize.observed import observed_on
from nnkit.samples import Sample

_NOTHING_WRONG_DB = 400.0  # stands for an infinite SQNR, which JSON does not have


_CLEARLY = 1.0  # standard errors of the mean gain


@dataclass(frozen=True)
class RangeChoice:
    """The methods that were tried, in the order in which they are preferred, and on how many inputs they were judged.

    held_out: whether the ranges that were tried came from other inputs than those.
    usual: the method that stays unless another is clearly better; None: the best is taken.
    gains: over that method, by the others' names.
    """

    trials: tuple[MethodTrial, ...]
    judged_on: int
    held_out: bool
    usual: Method | None = None
    gains: Mapping[str, Gain] = field(default_factory=dict)

    @property
    def method(self) -> Method:
        """The one with the best outputs, of equals the first; where there is a usual one, that, unless another's gain
        over it is clear: 0.1 dB and one standard error."""
        if self.usual is None:
            best = max(self.trials, key=lambda trial: trial.sqnr_db).method
        else:
            clear = [name for name, gain in self.gains.items() if gain.is_clear(_CLEARLY)]
            best = max(clear, key=lambda name: self.gains[name].mean_db, default=self.usual)
        return next(method for method in METHODS if method == best)

    @property
    def note(self) -> str:
        """What was chosen, and why."""
        figures = ", ".join(f"{trial.method} {trial.sqnr_db:.2f} dB" for trial in self.trials)
        held_out = "held out" if self.held_out else "which it was calibrated on, as there is no other"
        one = self.judged_on == 1
        return (
            f"calibration method {self.method}: {figures}, on {self.judged_on} input{'' if one else 's'} {held_out}"
            f"{self._over_the_usual}"
        )

    @property
    def _over_the_usual(self) -> str:
        if self.usual is None:
            return ""
        if self.method != self.usual:
            return f"; over {self.usual} {self.gains[self.method].text}"
        return "; no other is better by one standard error"

    def as_json(self) -> dict[str, Any]:
        """For the cache."""
        trials = [{"method": trial.method, "sqnr_db": trial.sqnr_db} for trial in self.trials]
        gains = {name: [gain.mean_db, min(gain.error_db, _NOTHING_WRONG_DB)] for name, gain in self.gains.items()}
        return {
            "trials": trials,
            "judged_on": self.judged_on,
            "held_out": self.held_out,
            "usual": self.usual,
            "gains": gains,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RangeChoice:
        """What `as_json` gave. Raises KeyError or TypeError for anything else."""
        trials = tuple(MethodTrial(**trial) for trial in stored["trials"])
        gains = {name: Gain(*gain) for name, gain in stored["gains"].items()}
        return cls(trials, stored["judged_on"], stored["held_out"], stored["usual"], gains)


def choose(
    model: Model,
    samples: Sequence[Sample],
    quantise: Callable[[CalibrationStats], Program],
    percentile: float,
    usual: Method | None = None,
    room: Mapping[str, Limits] = MappingProxyType({}),
) -> RangeChoice:
    """Try every method: ranges from most of the samples, `quantise`, outputs on the others by simulation.

    model: the float network that the programs are made of. samples: at least one; a single one is measured and
    judges. A quarter judges; of few samples each quarter in turn (`in_turns`). Of large networks fewer samples judge,
    so that the time is bounded. usual: as in `RangeChoice`. room: as in `CalibrationStats`.
    """
    turns = [(samples, samples)] if len(samples) == 1 else in_turns(samples)
    shares: dict[Method, list[float]] = {method: [] for method in METHODS}
    each_db: dict[Method, list[float]] = {method: [] for method in METHODS}
    left = judged_on = 0
    for index, (measured, judging) in enumerate(turns):
        observed = replace(observed_on(model, measured, percentile), room=room)
        for method in METHODS:
            program = quantise(by_method(observed, method, percentile=percentile))
            if index == 0 and method == METHODS[0]:
                left = most_judges(program, len(METHODS))
            accuracy = program_accuracy(model, program, judging[:left])
            share = 10.0 ** (-accuracy.together_db / 10.0)
            shares[method].append(math.inf if math.isnan(share) else share)
            each_db[method].extend(accuracy.each_db.tolist())
        judged_on += len(judging[:left])
        left -= len(judging)
        if left <= 0:
            break
    trials = tuple(MethodTrial(method, _decibels(sum(each) / len(each))) for method, each in shares.items())
    gains: dict[str, Gain] = {
        method: mean_gain(np.asarray(each_db[usual]), np.asarray(values))
        for method, values in each_db.items()
        if usual is not None and method != usual
    }
    return RangeChoice(trials, judged_on, len(samples) > 1, usual, gains)


def chosen_by(statistics: CalibrationStats, choice: RangeChoice, percentile: float) -> CalibrationStats:
    """Statistics of all images with the ranges of the method that was chosen."""
    return replace(by_method(statistics, choice.method, percentile=percentile), trials=choice.trials)


def _decibels(share: float) -> float:
    """SQNR of an error's share of the squares, within what JSON can hold."""
    if share == 0.0:
        return _NOTHING_WRONG_DB
    return -_NOTHING_WRONG_DB if math.isinf(share) else round(-10.0 * math.log10(share), 4)
