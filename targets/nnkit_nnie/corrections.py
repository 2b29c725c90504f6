"""Corrections of a network's weights and biases before the mapper quantises them: equalisation, bias correction.

Each is measured on most of the calibration images and judged on the others, by what leaves the NNIE: where that is
farther from the float network than without the correction, it is undone. What is kept is in the emitted pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from nnkit.calibrate.stats import CalibrationStats
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Fixed, Float, Program
from nnkit.program.inputs import quantized_inputs
from nnkit.quantize.judge import FEWEST, outputs_sqnr_db, set_apart, too_few, verdict
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit.target import Corrected, Quantization
from nnkit_nnie.bias_correction import correct_biases
from nnkit_nnie.context import Division
from nnkit_nnie.equalize import EQUALIZED, channel_peaks, equalize, pairs_of
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.quantize import Precision, input_formats, to_program
from nnkit_nnie.stn_calibration import statistics_for
from nnkit_nnie.weights_edit import WeightsEdit

EQUALIZE, BIAS_CORRECTION = "equalize", "bias_correction"
CORRECTIONS = (EQUALIZE, BIAS_CORRECTION)
"""Their names in a recipe, in the order in which they are made."""

_LABELS = {EQUALIZE: "equalisation", BIAS_CORRECTION: "bias correction"}
_SAMPLES = 32


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A network with its statistics, and the program that they give."""

    lowered: NnieLowered
    statistics: CalibrationStats
    program: Program


def correct(lowered: NnieLowered, quantization: Quantization, options: NnieOptions) -> Corrected[NnieLowered]:
    """The network with the corrections that the recipe asks for and that hold on images kept aside; notes say which.

    Raises RecipeError where there are too few calibration images.
    """
    wanted = quantization.calibration.corrections or ()
    samples = quantization.samples(_SAMPLES)
    if len(samples) < FEWEST:
        raise too_few(len(samples))
    measured, judging = set_apart(samples)
    work = _Work(quantization, options)
    best = work.candidate(lowered, quantization.statistics)
    best_db = _left_db(lowered, best, judging)
    notes: list[str] = []
    makers: Mapping[str, Callable[[_Candidate, Sequence[Sample]], _Candidate | None]] = {
        EQUALIZE: work.equalized,
        BIAS_CORRECTION: work.bias_corrected,
    }
    for name in CORRECTIONS:
        if name not in wanted:
            continue
        quantization.say(_LABELS[name])
        candidate = makers[name](best, measured)
        if candidate is None:
            notes.append(f"{_LABELS[name]}: there is nothing that it could change")
            continue
        now_db = _left_db(lowered, candidate, judging)
        kept, note = verdict(_LABELS[name], best_db, now_db)
        notes.append(note)
        if kept:
            best, best_db = candidate, now_db
    network = replace(best.lowered.network, notes=(*best.lowered.network.notes, *notes))
    return Corrected(replace(best.lowered, network=network), best.statistics)


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

    def bias_corrected(self, before: _Candidate, measured: Sequence[Sample]) -> _Candidate | None:
        """With other biases; None where no layer has any of its own."""
        edit = WeightsEdit(before.lowered.model)
        if not correct_biases(before.lowered.network, before.program, edit, measured, self._quantization.say):
            return None
        return self.candidate(NnieLowered.of(edit.model(), Division.of(self._options)), before.statistics)

    def _observed(self, lowered: NnieLowered, before: CalibrationStats) -> CalibrationStats:
        """All calibration images again, by the recipe's method."""
        from nnkit.calibrate import calibrate
        from nnkit.calibrate.methods import Method

        given = self._quantization.samples(before.images)
        sources = {spec.name: [sample.inputs[spec.name] for sample in given] for spec in lowered.model.inputs}
        settings: dict[str, Any] = {} if before.percentile is None else {"percentile": before.percentile}
        return calibrate(lowered.model, sources, {}, method=cast("Method", before.method), **settings)


def _left_db(original: NnieLowered, candidate: _Candidate, samples: Sequence[Sample]) -> float:
    """SQNR of what leaves the NNIE, outputs of the network and what the CPU is handed, to the original network."""
    network, program = original.network, candidate.program
    on_nnie = [part for part in network.segments if part.placement == "npu"]
    names = [name for part in on_nnie for name in part.outputs if name in program.tensors]
    session = FloatSession(network.graph.model, fetch=names)
    expected = [session.run(sample.inputs) for sample in samples]
    stored = [simulate(program, quantized_inputs(program, sample)) for sample in samples]
    return outputs_sqnr_db(
        {name: np.stack([program.tensors[name].format.dequantize(each[name]) for each in stored]) for name in names},
        {name: np.stack([each[name].reshape(program.tensors[name].shape) for each in expected]) for name in names},
    )
