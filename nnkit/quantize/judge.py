"""Whether a correction helps: judged by the outputs on inputs that it has not seen, and undone where it harms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nnkit.distance import distance
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Program
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate

JUDGING = 4
"""Every fourth sample judges, the others are measured."""

FEWEST = 2 * JUDGING
"""Samples; below, there is nothing left to measure on."""

_MANY = 16

AnyProgram = TypeVar("AnyProgram", bound=Program)
Outputs = Mapping[str, NDArray[Any]]
"""By name, in real units."""


class Verdict(NamedTuple):
    """Whether a correction is kept, and the note that says so."""

    kept: bool
    note: str


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
    if len(samples) >= _MANY:
        return [set_apart(samples)]
    return [
        ([sample for index, sample in enumerate(samples) if index % JUDGING != turn], list(samples[turn::JUDGING]))
        for turn in range(min(JUDGING, len(samples)))
    ]


def outputs_sqnr_db(found: Outputs, expected: Outputs) -> float:
    """The mean over the outputs of squared error / squares, in dB; with one output that is its SQNR."""
    shares = [10.0 ** (-distance(values, expected[name]).sqnr_db / 10.0) for name, values in found.items()]
    with np.errstate(divide="ignore"):  # no error at all
        return float(-10.0 * np.log10(np.mean(shares)))


def program_sqnr_db(model: Model, program: Program, samples: Sequence[Sample]) -> float:
    """`outputs_sqnr_db` of a program against the float model that it was made of, over all samples."""
    session = FloatSession(model, fetch=program.outputs)
    expected = [session.run(sample.inputs) for sample in samples]
    stored = [simulate(program, quantized_inputs(program, sample)) for sample in samples]
    return outputs_sqnr_db(
        {
            name: np.stack([program.tensors[name].format.dequantize(each[name]) for each in stored])
            for name in program.outputs
        },
        {name: np.stack([each[name] for each in expected]) for name in program.outputs},
    )


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
