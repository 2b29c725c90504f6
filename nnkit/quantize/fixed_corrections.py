"""Corrected biases and equalised channels of power-of-two fixed point, each judged on held-out inputs.

Equalisation changes what the values between two convolutions are, so that reports cannot compare these with the float
network's. It is validated last, together with the biases, and has to gain beyond what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from nnkit.calibrate.methods import METHODS, Method
from nnkit.calibrate.run import calibrate, sources_of
from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import RecipeError
from nnkit.program import Conv2d, Program, macs, with_names
from nnkit.quantize.affine.equalize import equalize
from nnkit.quantize.bias_correction import BIAS_CORRECTION, LABEL, SAMPLES, with_corrected_biases
from nnkit.quantize.float_program import FloatProgram
from nnkit.quantize.judge import FEWEST, Judging, clearly_better, no_worse, set_apart, too_few
from nnkit.quantize.lowered import LoweredLayers
from nnkit.samples import Sample

EQUALIZE = "equalize"
FIXED_CORRECTIONS = (EQUALIZE, BIAS_CORRECTION)
"""Their names in a recipe's `calibration.corrections`."""

EQUALIZED = ".equalized"
"""What the names of scaled values end in."""

_EQUALISATION = "equalisation"
_EQUALISATION_ERRORS = 2.0  # standard errors that it gains by, where nobody asked: it costs comparisons by layer
_MOST_PRODUCTS = 10e9  # of all samples together, where nobody asked

Quantise: TypeAlias = Callable[[LoweredLayers, CalibrationStats], Program]
Samples: TypeAlias = Callable[[int], Sequence[Sample]]
"""The first so many calibration inputs."""


def corrected(
    lowered: LoweredLayers,
    statistics: CalibrationStats,
    quantise: Quantise,
    samples: Samples,
    wanted: Sequence[str],
    *,
    asked: bool,
) -> Program:
    """The program that `quantise` makes, with those of the wanted corrections that hold; notes say which.

    asked: whether the recipe names them; otherwise they are tried where there are images enough, and kept only where
        they gain more than chance.

    Raises RecipeError for too few images, and where biases are to be corrected whose sums are rounded channel by
    channel (`running`), if the recipe asks.
    """
    program = quantise(lowered, statistics)
    if not wanted or not any(isinstance(op, Conv2d) for op in program.ops):
        return program
    if BIAS_CORRECTION in wanted and any(isinstance(op, Conv2d) and op.accumulate == "running" for op in program.ops):
        raise RecipeError(
            "biases cannot be corrected where sums are rounded after every input channel",
            where="calibration.corrections",
            remedy=f"set `accumulate: wide`, or remove {BIAS_CORRECTION!r}",
        )
    given = samples(SAMPLES)
    if len(given) < FEWEST:
        if asked:
            raise too_few(len(given))
        note = f"weights are not corrected: that takes {FEWEST} calibration images, and there are {len(given)}"
        return replace(program, notes=(*program.notes, note))
    if not asked:
        given = given[: _affordable(program)]
    measured, kept_aside = set_apart(given) if asked else (given[::2], given[1::2])
    judge, judging = no_worse if asked else clearly_better, Judging(lowered.model, kept_aside)
    judge_equalisation = no_worse if asked else partial(clearly_better, errors=_EQUALISATION_ERRORS)
    best, accuracy, notes = program, judging.accuracy(program), list[str]()
    if BIAS_CORRECTION in wanted:
        candidate = with_corrected_biases(lowered.model, program, measured)
        now = judging.accuracy(candidate)
        kept, note = judge(LABEL, accuracy, now)
        notes.append(note)
        if kept:
            best, accuracy = candidate, now
    if EQUALIZE in wanted:
        names = [spec.name for spec in lowered.model.inputs]
        change = equalize(lowered, {name: np.concatenate([each.inputs[name] for each in measured]) for name in names})
        if change.pairs:
            again = _observed(change.network, change.pairs, statistics, samples)
            scaled = quantise(change.network, again)
            if BIAS_CORRECTION in wanted:
                scaled = with_corrected_biases(change.network.model, scaled, measured)
            kept, note = judge_equalisation(_EQUALISATION, accuracy, judging.accuracy(scaled))
            notes.append(note)
            if kept:
                best = with_names(scaled, {name: name + EQUALIZED for name in change.values})
        elif asked:
            notes.extend((f"{_EQUALISATION}: no channels can be scaled", *change.declined))
    return replace(best, notes=(*best.notes, *notes))


def _affordable(program: Program) -> int:
    """As many samples as are computed in a minute or so; at least `FEWEST`."""
    products = sum(macs(op, program) for op in program.ops)
    return max(FEWEST, int(_MOST_PRODUCTS // max(1, products)))


def _observed(
    equalized: LoweredLayers, pairs: Sequence[tuple[str, str]], before: CalibrationStats, samples: Samples
) -> CalibrationStats:
    """The statistics with those of the scaled values from all calibration images, by the same method."""
    model = equalized.model
    given = samples(max(before.images, FEWEST))
    settings: dict[str, Any] = {} if before.percentile is None else {"percentile": before.percentile}
    method: Method = before.method if before.method in METHODS else "max"
    again = calibrate(model, sources_of(model, given), {}, method=method, **settings)
    scaled = {name: again.ranges[name] for name in _scaled_values(equalized.layers, pairs) if name in again.ranges}
    return replace(before, ranges={**before.ranges, **scaled})


def _scaled_values(layers: FloatProgram, pairs: Sequence[tuple[str, str]]) -> set[str]:
    """What calibration knows of the values from the first layer of each pair to the second."""
    producers = {op.output: op for op in layers.ops}
    names: set[str] = set()
    for first, second in pairs:
        reader = next(op for op in layers.ops if op.name == second)
        while reader.name != first:
            reader = producers[reader.inputs[0]]
            names |= {reader.output, reader.range_value}
    return names
