"""From the recipe's words to the affine quantiser's: which corrections, on which images, judged by which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nnkit.affine_build import DEFAULT_CORRECTIONS
from nnkit.affine_build.options import AffineOptions
from nnkit.calibrate import calibrate, sources_of
from nnkit.calibrate.methods import AUTO
from nnkit.calibrate.stats import CalibrationStats
from nnkit.defaults import PERCENTILE
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.preprocess import Preprocess
from nnkit.program import with_names
from nnkit.program.affine import AffineProgram
from nnkit.quantize.affine import (
    HEADROOM,
    AffineScheme,
    Balanced,
    Equalized,
    WeightFormats,
    balance,
    equalize,
    quantize_affine,
)
from nnkit.quantize.affine.adaround import AdaRound
from nnkit.quantize.affine.build import shared_parts
from nnkit.quantize.affine.quantize import Corrections, Samples, float_outputs, outputs_of
from nnkit.quantize.affine.ranges import ranges_used
from nnkit.quantize.judge import FEWEST, outputs_sqnr_db, set_apart, too_few, verdict
from nnkit.quantize.lowered import LoweredLayers
from nnkit.quantize.used_ranges import UsedRanges
from nnkit.report.untried import KEPT_FORMATS
from nnkit.samples import Sample
from nnkit.target import Quantization

_MARKS = {"equalize": ".equalized", "balance": ".balanced"}
"""What the names of scaled values end in, in the order in which the float network is changed."""
_LABELS = {"equalize": "equalisation", "balance": "balancing"}


def to_program(
    lowered: LoweredLayers, quantization: Quantization, options: AffineOptions, formats: WeightFormats | None = None
) -> AffineProgram:
    """The affine program, with the corrections that the recipe asks for and that hold on held-out images.

    formats: of the weights, where an earlier call for this network has found them.

    Raises RecipeError for corrections without calibration images; ModelError as the quantiser.
    """
    settings = quantization.calibration
    wanted = wanted_corrections(quantization)
    scheme = scheme_of(quantization, options)
    plain = replace(scheme, bias_correction=False)
    if lowered.layers.formats:
        if settings.corrections:
            raise RecipeError(
                "the network is quantised already: `calibration.corrections` would change its integers",
                remedy="remove them, or give the float network",
            )
        program = quantize_affine(lowered, quantization.statistics, plain, name=quantization.name)
        return replace(program, notes=(*program.notes, KEPT_FORMATS))
    samples = quantization.samples(options.correction_images) if wanted else []
    if len(samples) < FEWEST:
        if settings.corrections:
            raise too_few(len(samples))
        program = quantize_affine(lowered, quantization.statistics, plain, name=quantization.name)
        note = f"no corrections: {len(samples)} calibration images are too few"
        return replace(program, notes=(*program.notes, note)) if wanted else program
    search = AdaRound(options.adaround_steps, options.adaround_seconds) if "adaround" in wanted else None
    measured, judging = (stacked(part, lowered.model) for part in set_apart(samples))
    known = WeightFormats(scheme) if formats is None else formats

    def quantized(network: LoweredLayers, kept: Sequence[str], *, final: bool) -> AffineProgram:
        again = observed_again(network.model, samples, quantization.statistics) if kept else quantization.statistics
        return quantize_affine(
            network,
            again,
            replace(scheme, eight_bit_headroom=HEADROOM) if "balance" in kept else scheme,
            Corrections(
                samples=measured,
                held_out=judging,
                refine_ranges="refine_ranges" in wanted,
                adaround=search if final else None,
                measure_anew=final,
            ),
            formats=None if kept else known,
            say=quantization.say if final else lambda text: quantization.say(f"trial: {text}"),
            name=quantization.name,
        )

    kept, notes = _judged_changes(
        lowered, [word for word in _MARKS if word in wanted], measured, judging, quantized, options
    )
    network, names = _changed(lowered, kept, stacked(samples, lowered.model), options)
    program = quantized(network, kept, final=True)
    return replace(with_names(program, names), notes=(*program.notes, *notes))


def _judged_changes(
    lowered: LoweredLayers,
    words: Sequence[str],
    measured: Samples,
    judging: Samples,
    quantized: Callable[..., AffineProgram],
    options: AffineOptions,
) -> tuple[tuple[str, ...], list[str]]:
    """Which changes of the float network's weights are kept, each against what was kept before, and notes on them.

    Neither program of a comparison has measured on the inputs that judge, and none has adaptive rounding.
    """
    kept: tuple[str, ...] = ()
    notes: list[str] = []
    if not words:
        return kept, notes
    reference = float_outputs(lowered.model, judging)
    was = outputs_sqnr_db(outputs_of(quantized(lowered, kept, final=False), judging), reference)
    for word in words:
        label = _LABELS[word]
        before, _ = _changed(lowered, kept, measured, options)
        change = _change(before, word, measured, options)
        if not change.values:
            notes.extend((f"{label}: no channels can be scaled", *change.declined))
            continue
        now = outputs_sqnr_db(outputs_of(quantized(change.network, (*kept, word), final=False), judging), reference)
        helps, note = verdict(label, was, now)
        notes.append(note)
        if helps:
            kept, was = (*kept, word), now
    return kept, notes


def _change(network: LoweredLayers, word: str, samples: Samples, options: AffineOptions) -> Equalized | Balanced:
    if word == "equalize":
        return equalize(network, samples)
    wide, heavy = options.precision != "int8", options.precision == "int16"
    scheme = AffineScheme(
        per_channel=options.weights == "per_channel",
        symmetric_activations=options.symmetric_activations,
        activation_bits=16 if wide else 8,
        weight_bits=16 if heavy else 8,
    )
    return balance(network, samples, scheme)


def _changed(
    network: LoweredLayers, words: Sequence[str], samples: Samples, options: AffineOptions
) -> tuple[LoweredLayers, dict[str, str]]:
    """The network with these changes, and names for the values whose channels they scaled, by those in the network.

    Scaled values are not those of the network any more, and nothing shall compare them.
    """
    names: dict[str, str] = {}
    for word in words:
        change = _change(network, word, samples, options)
        network = change.network
        names |= {name: names.get(name, name) + _MARKS[word] for name in change.values}
    return network, names


def source_of(
    program: AffineProgram,
    lowered: LoweredLayers,
    samples: Callable[[int], Sequence[Sample]],
    options: AffineOptions,
) -> tuple[LoweredLayers, AffineProgram]:
    """The float network that `to_program` made the program of, and the program with that network's names.

    Without equalisation and balancing these are `lowered` and `program` themselves.
    """
    equalized, balanced = _MARKS.values()
    ends = {"equalize": (equalized, equalized + balanced), "balance": (balanced,)}
    words = [word for word, marks in ends.items() if any(name.endswith(marks) for name in program.tensors)]
    if not words:
        return lowered, program
    network, names = _changed(lowered, words, stacked(samples(options.correction_images), lowered.model), options)
    return network, with_names(program, {new: name for name, new in names.items()})


def ranges_taken(
    lowered: LoweredLayers, quantization: Quantization, program: AffineProgram, options: AffineOptions
) -> UsedRanges:
    """The ranges of calibration, fitted to each tensor's format."""
    tensors = named_as_imported(program).tensors
    return ranges_used(
        quantization.statistics, scheme_of(quantization, options), tensors, shared_parts(lowered.layers)
    )


def named_as_imported(program: AffineProgram) -> AffineProgram:
    """The program with the float network's names for values whose channels were scaled."""
    marks = tuple(_MARKS.values())
    names = {}
    for name in program.tensors:
        plain = name
        for mark in reversed(marks):
            plain = plain.removesuffix(mark)
        names[name] = plain
    return with_names(program, names)


def wanted_corrections(quantization: Quantization) -> Sequence[str]:
    """Those of the recipe, or the default ones."""
    asked = quantization.calibration.corrections
    return DEFAULT_CORRECTIONS if asked is None else asked


def scheme_of(quantization: Quantization, options: AffineOptions) -> AffineScheme:
    """The recipe's words as a scheme."""
    settings = quantization.calibration
    return AffineScheme(
        per_channel=options.weights == "per_channel",
        symmetric_weights=options.symmetric_weights,
        symmetric_activations=options.symmetric_activations,
        activation_method="max" if settings.method is None or settings.method == AUTO else settings.method,
        weight_method=options.weight_method,
        percentile=settings.percentile,
        bias_correction="bias_correction" in wanted_corrections(quantization),
        activation_bits=8 if options.precision == "int8" else 16,
        weight_bits=16 if options.precision == "int16" else 8,
        headroom=settings.headroom,
    )


def trial_program(
    lowered: LoweredLayers,
    quantization: Quantization,
    options: AffineOptions,
    samples: Sequence[Sample],
    formats: WeightFormats,
) -> AffineProgram:
    """What `to_program` makes, up to its corrections: of those there is bias correction alone, if it is wanted.

    It is measured on `samples`, and not judged. A search makes one for every set of layers that it tries.
    """
    scheme, corrections = scheme_of(quantization, options), None
    if scheme.bias_correction and len(samples) >= FEWEST:
        corrections = Corrections(stacked(samples, lowered.model))
    return quantize_affine(
        lowered,
        quantization.statistics,
        scheme,
        corrections,
        formats=formats,
        name=quantization.name,
    )


def stacked(samples: Sequence[Sample], model: Model) -> Samples:
    """[N, ...] by input name."""
    return {spec.name: np.concatenate([sample.inputs[spec.name] for sample in samples]) for spec in model.inputs}


def observed_again(model: Model, samples: Sequence[Sample], stats: CalibrationStats) -> CalibrationStats:
    """Ranges of a network whose inner values changed their widths; of its inputs, all images' ranges are kept."""
    observed = calibrate(
        model,
        sources_of(model, samples),
        {spec.name: Preprocess.from_recipe(None, spec.shape) for spec in model.inputs},
        method=stats.method if stats.method in ("percentile", "mse", "kl") else "max",  # type: ignore[arg-type]
        percentile=stats.percentile or PERCENTILE,
    )
    inputs = {spec.name for spec in model.inputs}
    ranges = {name: stats.ranges[name] if name in inputs else each for name, each in observed.ranges.items()}
    kept = {
        name: stats.histograms.get(name, each) if name in inputs else each
        for name, each in observed.histograms.items()
    }
    return replace(observed, ranges=ranges, histograms=kept)
