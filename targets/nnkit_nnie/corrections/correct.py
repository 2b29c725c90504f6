"""Corrections of a network's weights and biases before the mapper quantises them: equalised channels, raised largest
weights, corrected biases.

Each is measured on most of the calibration images and judged on the others, by what leaves the NNIE: where that is
farther from the float network than without the correction, it is undone. Where the recipe names labelled images for
that, so it is where the task's metric on them is worse. What is kept is in the emitted pair. Where a
recipe says nothing of them, all are tried if there are images enough and layers of 8 bits, and kept if they gain
more than chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from nnkit.calibrate.stats import CalibrationStats
from nnkit.program import Fixed, Float, Program
from nnkit.quantize.judge import FEWEST, Judge, clearly_better, no_worse, set_apart, too_few
from nnkit.samples import Sample
from nnkit.target import Corrected, Quantization
from nnkit_nnie.corrections.bias_correction import correct_biases
from nnkit_nnie.corrections.equalize import EQUALIZED, channel_peaks, equalize, pairs_of
from nnkit_nnie.corrections.judging import Judging
from nnkit_nnie.corrections.largest_weights import raise_largest_weights
from nnkit_nnie.corrections.task import TaskOfCandidates
from nnkit_nnie.corrections.weights_edit import WeightsEdit
from nnkit_nnie.gfpq.quantize import Precision, input_formats, to_program
from nnkit_nnie.limits.context import Division
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.stn.calibration import statistics_for

EQUALIZE, RAISE_LARGEST, BIAS_CORRECTION = "equalize", "raise_largest", "bias_correction"
CORRECTIONS = (EQUALIZE, RAISE_LARGEST, BIAS_CORRECTION)
"""Their names in a recipe, in the order in which they are made."""

_LABELS = {
    EQUALIZE: "equalisation",
    RAISE_LARGEST: "raising the largest weights",
    BIAS_CORRECTION: "bias correction",
}
_SAMPLES = 32
_PRODUCTS = 10e9  # of a recipe that says nothing, for all samples together; every second sample judges
_ALIVE_BYTES = 1 << 30  # of feature maps, those of all samples together


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A network with its statistics, and the program that they give."""

    lowered: NnieLowered
    statistics: CalibrationStats
    program: Program


def correct(lowered: NnieLowered, quantization: Quantization, options: NnieOptions) -> Corrected[NnieLowered]:
    """The network with the corrections that the recipe asks for and that hold on held-out images; notes say which.

    Raises RecipeError where it asks for some, and there are too few calibration images.
    """
    asked = quantization.calibration.corrections
    wanted = CORRECTIONS if asked is None else asked
    samples = quantization.samples(_SAMPLES)
    if len(samples) < FEWEST:
        if asked is None:
            return Corrected(_with_notes(lowered, [_not_corrected(len(samples))]), quantization.statistics)
        raise too_few(len(samples))
    work = _Work(quantization, options)
    best = work.candidate(lowered, quantization.statistics)
    samples = samples[: _affordable(best.program, by_default=asked is None)]
    measured, kept_aside = (samples[::2], samples[1::2]) if asked is None else set_apart(samples)
    judge: Judge = clearly_better if asked is None else no_worse
    judging = Judging(lowered, kept_aside)
    best_accuracy = judging.accuracy(best.program)
    task = TaskOfCandidates(quantization.task_judge, best.program, quantization.say)
    notes: list[str] = []
    makers: Mapping[str, Callable[[_Candidate, Sequence[Sample]], _Candidate | None]] = {
        EQUALIZE: work.equalized,
        RAISE_LARGEST: work.raised,
        BIAS_CORRECTION: work.bias_corrected,
    }
    for name in CORRECTIONS:
        if name not in wanted:
            continue
        quantization.say(_LABELS[name])
        candidate = makers[name](best, measured)
        if candidate is None:
            if asked is not None:
                notes.append(f"{_LABELS[name]}: there is nothing that it could change")
            continue
        accuracy = judging.accuracy(candidate.program)
        kept, note = task.verdict(_LABELS[name], judge(_LABELS[name], best_accuracy, accuracy), candidate.program)
        notes.append(note)
        if kept:
            best, best_accuracy = candidate, accuracy
    if notes:
        notes.append(
            f"corrections were judged by the outputs, on {len(kept_aside)} held-out calibration images{task}"
        )
    corrected = _with_notes(best.lowered, notes)
    if best.lowered is not lowered:
        corrected = replace(corrected, uncorrected=lowered)
    return Corrected(corrected, best.statistics)


def _with_notes(lowered: NnieLowered, notes: Sequence[str]) -> NnieLowered:
    return replace(lowered, network=replace(lowered.network, notes=(*lowered.network.notes, *notes)))


def _not_corrected(images: int) -> str:
    return f"weights are not corrected: that takes {FEWEST} calibration images, and there are {images}"


def _affordable(program: Program, *, by_default: bool) -> int:
    """As many samples as can have their feature maps in memory at once, and be computed in a few minutes by default;
    at least `FEWEST`."""
    last = {name: step for step, op in enumerate(program.ops) for name in op.inputs}
    alive: dict[str, int] = {}
    most = 1
    for step, op in enumerate(program.ops):
        tensor = program.tensors[op.output]
        alive[op.output] = math.prod(tensor.shape) * tensor.format.dtype.itemsize
        most = max(most, sum(alive.values()))
        alive = {name: size for name, size in alive.items() if last.get(name, -1) > step}
    products = sum(op.multiply_accumulates(program.tensors) for op in program.ops) if by_default else 0
    return max(FEWEST, min(_ALIVE_BYTES // most, int(_PRODUCTS // max(1, products)) if by_default else _SAMPLES))


class _Work:
    """What all candidates share."""

    def __init__(self, quantization: Quantization, options: NnieOptions) -> None:
        self._quantization, self._options = quantization, options

    def candidate(self, lowered: NnieLowered, statistics: CalibrationStats) -> _Candidate:
        """The network with its program."""
        wanted, options = self._quantization, self._options
        precision = Precision.of(lowered.network, options.compile_mode)
        formats: dict[str, Fixed | Float] = input_formats(lowered.model, wanted.input_ranges, options)
        held = statistics_for(lowered, statistics, precision, formats, wanted.samples, options)
        return _Candidate(
            lowered, statistics, to_program(lowered.network, held, precision, name=wanted.name, inputs=formats)
        )

    def equalized(self, before: _Candidate, measured: Sequence[Sample]) -> _Candidate | None:
        """With channels scaled; None where there are none to scale."""
        network = before.lowered.network
        read = list(dict.fromkeys(pair.values[-1] for pair in pairs_of(network)))
        if not read:
            return None
        edit = WeightsEdit(before.lowered.model)
        peaks = channel_peaks(network.graph.model, read, [sample.inputs for sample in measured])
        factors = equalize(network, edit, Precision.of(network, self._options.compile_mode), peaks)
        if not factors:
            return None
        lowered = NnieLowered.of(edit.model(), Division.of(self._options))
        again = self._observed(lowered, before.statistics)
        scaled = {name: again.ranges[name] for name in again.ranges if name.endswith(EQUALIZED)}
        return self.candidate(lowered, replace(before.statistics, ranges={**before.statistics.ranges, **scaled}))

    def raised(self, before: _Candidate, measured: Sequence[Sample]) -> _Candidate | None:
        """With the largest weights of groups at codes; None where none would be nearer."""
        edit = WeightsEdit(before.lowered.model)
        precision = Precision.of(before.lowered.network, self._options.compile_mode)
        if not raise_largest_weights(before.lowered.network, edit, precision):
            return None
        return self.candidate(NnieLowered.of(edit.model(), Division.of(self._options)), before.statistics)

    def bias_corrected(self, before: _Candidate, measured: Sequence[Sample]) -> _Candidate | None:
        """With other biases; None where no layer has any of its own."""
        edit = WeightsEdit(before.lowered.model)
        if not correct_biases(before.lowered.network, before.program, edit, measured, self._quantization.say):
            return None
        return self.candidate(NnieLowered.of(edit.model(), Division.of(self._options)), before.statistics)

    def _observed(self, lowered: NnieLowered, before: CalibrationStats) -> CalibrationStats:
        """All calibration images again, by the recipe's method."""
        from nnkit.calibrate import calibrate, sources_of
        from nnkit.calibrate.methods import Method

        given = self._quantization.samples(before.images)
        sources = sources_of(lowered.model, given)
        settings: dict[str, Any] = {} if before.percentile is None else {"percentile": before.percentile}
        return calibrate(lowered.model, sources, {}, method=cast("Method", before.method), **settings)
