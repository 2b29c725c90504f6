"""Whether a correction helps: judged by the outputs on inputs that it has not seen, and undone where it harms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from nnkit.distance import distance
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Program, macs
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate

JUDGING = 4
"""Every fourth sample judges, the others are measured."""

FEWEST = 2 * JUDGING
"""Samples; below, there is nothing left to measure on."""

MANY = 16
"""Samples of which a quarter says something."""

_MOST_MACS = 200e9  # of all simulations; in numpy that is below a minute
_LEAST_GAIN_DB = 0.1
_EXACT_DB = 200.0

AnyProgram = TypeVar("AnyProgram", bound=Program)
Outputs = Mapping[str, NDArray[Any]]
"""By name, in real units."""


class Verdict(NamedTuple):
    """Whether a correction is kept, and the note that says so."""

    kept: bool
    note: str


@dataclass(frozen=True, eq=False)
class Accuracy:
    """SQNR to the float network in dB: of all samples together, and of each of them (200 where nothing is wrong, -200
    where there are no numbers)."""

    together_db: float
    each_db: NDArray[np.float64]


class Gain(NamedTuple):
    """By how much the mean input has better outputs, and the standard error of that; infinite for a single input."""

    mean_db: float
    error_db: float

    def is_clear(self, errors: float) -> bool:
        """Whether it is 0.1 dB or more, and no less than so many standard errors."""
        return self.mean_db >= max(_LEAST_GAIN_DB, errors * self.error_db)

    @property
    def text(self) -> str:
        """For notes."""
        return f"{self.mean_db:+.2f} dB on the mean input, with a standard error of {self.error_db:.2f}"


def mean_gain(without_db: NDArray[np.float64], with_db: NDArray[np.float64]) -> Gain:
    """without_db, with_db: SQNR of the same inputs."""
    gains = with_db - without_db
    error = float(gains.std(ddof=1)) / math.sqrt(gains.size) if gains.size > 1 else math.inf
    return Gain(float(gains.mean()), error)


class Judge(Protocol):
    """Says whether a correction is kept, by the accuracy without and with it."""

    def __call__(self, correction: str, without: Accuracy, with_it: Accuracy) -> Verdict: ...


def too_few(samples: int, fewest: int = FEWEST) -> RecipeError:
    """The error where a recipe asks for corrections that so many samples cannot be measured on."""
    return RecipeError(
        f"corrections are measured on calibration images, and there are {samples}",
        where="calibration.corrections",
        remedy=f"give at least {fewest} images, or write corrections: []",
    )


def set_apart(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """The samples to measure on, and those that judge."""
    return [sample for index, sample in enumerate(samples) if index % JUDGING], list(samples[::JUDGING])


def in_turns(samples: Sequence[Sample]) -> list[tuple[list[Sample], list[Sample]]]:
    """`set_apart`; of fewer than 16 samples, where a quarter says little, with each quarter judging once.

    samples: at least two.
    """
    return [set_apart(samples)] if len(samples) >= MANY else quarters(samples)


def quarters(samples: Sequence[Sample]) -> list[tuple[list[Sample], list[Sample]]]:
    """The samples to measure on, and those that judge: a quarter at a time, so that every sample judges once.

    samples: at least two.
    """
    return [
        ([sample for index, sample in enumerate(samples) if index % JUDGING != turn], list(samples[turn::JUDGING]))
        for turn in range(min(JUDGING, len(samples)))
    ]


def most_judges(program: Program, programs: int) -> int:
    """How many inputs so many programs like this one can be judged on in bounded time; at least one."""
    products = sum(macs(op, program) for op in program.ops)
    return max(1, int(_MOST_MACS // max(programs * products, 1)))


def outputs_sqnr_db(found: Outputs, expected: Outputs) -> float:
    """The mean over the outputs of squared error / squares, in dB; with one output that is its SQNR."""
    shares = [10.0 ** (-distance(values, expected[name]).sqnr_db / 10.0) for name, values in found.items()]
    with np.errstate(divide="ignore"):  # no error at all
        return float(-10.0 * np.log10(np.mean(shares)))


def over_turns(turns: Sequence[Accuracy]) -> Accuracy:
    """The accuracy over the samples of all turns, each weighed by how many it judged."""
    shares = [10.0 ** (-turn.together_db / 10.0) for turn in turns]
    with np.errstate(divide="ignore"):  # no error at all
        together_db = float(-10.0 * np.log10(np.average(shares, weights=[turn.each_db.size for turn in turns])))
    return Accuracy(together_db, np.concatenate([turn.each_db for turn in turns]))


def accuracy(reals: Outputs, expected: Outputs) -> Accuracy:
    """reals, expected: [N, ...] by name, of N samples; of the expected values those that `reals` names are read."""
    count = len(next(iter(reals.values())))
    each_db = [
        outputs_sqnr_db({name: v[i] for name, v in reals.items()}, {n: expected[n][i] for n in reals})
        for i in range(count)
    ]
    within_reason = np.clip(np.nan_to_num(each_db, nan=-_EXACT_DB), -_EXACT_DB, _EXACT_DB)
    return Accuracy(outputs_sqnr_db(reals, expected), within_reason)


class Judging:
    """The float network's outputs on the samples that judge."""

    def __init__(self, model: Model, samples: Sequence[Sample]) -> None:
        self._samples = samples
        session = FloatSession(model, fetch=[spec.name for spec in model.outputs])
        runs = [session.run(sample.inputs) for sample in samples]
        self._expected = {spec.name: np.stack([run[spec.name] for run in runs]) for spec in model.outputs}

    def accuracy(self, program: Program) -> Accuracy:
        """The accuracy of a program with the network's outputs."""
        return accuracy(reals(program, self._samples, program.outputs), self._expected)


def reals(program: Program, samples: Sequence[Sample], names: Sequence[str]) -> Outputs:
    """What a program makes of samples: [N, ...] by name, in real units."""
    stored = [simulate(program, quantized_inputs(program, sample)) for sample in samples]
    return {
        name: np.stack([program.tensors[name].format.dequantize(each[name]) for each in stored]) for name in names
    }


def program_accuracy(model: Model, program: Program, samples: Sequence[Sample]) -> Accuracy:
    """The accuracy of a program against the float model that it was made of."""
    session = FloatSession(model, fetch=program.outputs)
    expected = [session.run(sample.inputs) for sample in samples]
    return accuracy(
        reals(program, samples, program.outputs),
        {name: np.stack([each[name] for each in expected]) for name in program.outputs},
    )


def accuracy_in_quarters(
    model: Model,
    program: Program,
    samples: Sequence[Sample],
    trials: Callable[[int, Sequence[Sample]], Iterable[Program]],
) -> tuple[Accuracy, Accuracy]:
    """The accuracy of two programs that are made anew for each quarter which judges them.

    program: one like them, by whose size as many samples judge as bounded time allows. trials: of the number of the
    quarter and of the samples to measure on, the two programs.
    """
    at_a_time = max(1, most_judges(program, 2) // JUDGING)
    turns = [
        [program_accuracy(model, each, judging[:at_a_time]) for each in trials(index, measured)]
        for index, (measured, judging) in enumerate(quarters(samples))
    ]
    without, with_it = (over_turns(each) for each in zip(*turns, strict=True))
    return without, with_it


def program_sqnr_db(model: Model, program: Program, samples: Sequence[Sample]) -> float:
    """`program_accuracy` of all samples together."""
    return program_accuracy(model, program, samples).together_db


def verdict(correction: str, without_db: float, with_db: float) -> Verdict:
    """A correction is kept where the outputs are no worse with it."""
    kept = with_db >= without_db
    figures = f"{without_db:.2f} dB without, {with_db:.2f} dB with, on held-out inputs"
    note = f"{correction} {'kept' if kept else 'undone'}: {figures}"
    return Verdict(kept, note)


def better_of(
    before: AnyProgram, after: AnyProgram, correction: str, without_db: float, with_db: float
) -> AnyProgram:
    """`after`, or `before` where the correction harms; with a note."""
    kept, note = verdict(correction, without_db, with_db)
    return replace(after if kept else before, notes=(*before.notes, note))


def no_worse(correction: str, without: Accuracy, with_it: Accuracy) -> Verdict:
    """For a correction that was asked for: kept unless all samples together are worse with it."""
    return verdict(correction, without.together_db, with_it.together_db)


def better_in_both(correction: str, without: Accuracy, with_it: Accuracy) -> Verdict:
    """For one that nobody asked for, on few samples: kept where it gains on all together and on the mean one."""
    gain = mean_gain(without.each_db, with_it.each_db)
    kept, note = verdict(correction, without.together_db, with_it.together_db)
    kept = kept and gain.mean_db > 0.0
    return Verdict(kept, f"{correction} {'kept' if kept else 'undone'}: {note.split(': ', 1)[1]}; {gain.text}")


def clearly_better(correction: str, without: Accuracy, with_it: Accuracy, errors: float = 1.0) -> Verdict:
    """For one that nobody asked for: kept where its mean gain over the samples is 0.1 dB or more, and no less than
    so many of its own standard errors."""
    gain = mean_gain(without.each_db, with_it.each_db)
    kept, note = verdict(correction, without.together_db, with_it.together_db)
    kept = kept and gain.is_clear(errors)
    return Verdict(kept, f"{correction} {'kept' if kept else 'undone'}: {note.split(': ', 1)[1]}; {gain.text}")
