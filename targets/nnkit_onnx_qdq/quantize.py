"""From the recipe's words to the affine quantiser's: which corrections, on which images, judged by which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nnkit.calibrate import calibrate
from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.preprocess import Preprocess
from nnkit.program.affine import AffineProgram, with_names
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
from nnkit.quantize.affine.quantize import Samples, float_outputs, mean_sqnr, outputs_of
from nnkit.target import Quantization
from nnkit.verify.samples import Sample
from nnkit_onnx_qdq.options import OnnxQdqOptions

DEFAULT_CORRECTIONS = ("bias_correction",)
_JUDGING = 4  # every fourth image judges
_MARKS = {"equalize": ".equalized", "balance": ".balanced"}
"""What the names of scaled values end in, in the order in which the float network is changed."""
_LABELS = {"equalize": "equalisation", "balance": "balancing"}
_FEWEST = 2 * _JUDGING  # below, there is nothing left to measure on


def to_program(
    model: Model, quantization: Quantization, options: OnnxQdqOptions, formats: WeightFormats | None = None
) -> AffineProgram:
    """The affine program, with the corrections that the recipe asks for and that hold on images kept aside.

    formats: of the weights, where an earlier call for this network has found them.

    Raises RecipeError for corrections without calibration images; ModelError as the quantiser.
    """
    settings = quantization.calibration
    wanted = wanted_corrections(quantization)
    scheme = scheme_of(quantization, options)
    plain = replace(scheme, bias_correction=False)
    samples = quantization.samples(options.correction_images) if wanted else []
    if len(samples) < _FEWEST:
        if settings.corrections:
            raise RecipeError(
                f"corrections are measured on calibration images, and there are {len(samples)}",
                where="calibration.corrections",
                remedy=f"give at least {_FEWEST} images, or write corrections: []",
            )
        program = quantize_affine(model, quantization.statistics, plain, name=quantization.name)
        note = f"no corrections: {len(samples)} calibration images are too few"
        return replace(program, notes=(*program.notes, note)) if wanted else program
    search = AdaRound(options.adaround_steps, options.adaround_seconds) if "adaround" in wanted else None
    measured = stacked(_measuring(samples), model)
    judging = stacked(samples[::_JUDGING], model)

    known = WeightFormats(scheme) if formats is None else formats

    def quantized(network: Model, kept: Sequence[str], *, final: bool) -> AffineProgram:
        again = observed_again(network, samples, quantization.statistics) if kept else quantization.statistics
        return quantize_affine(
            network,
            again,
            replace(scheme, eight_bit_headroom=HEADROOM) if "balance" in kept else scheme,
            samples=measured,
            held_out=judging,
            formats=None if kept else known,
            refine_ranges="refine_ranges" in wanted,
            adaround=search if final else None,
            measure_anew=final,
            say=quantization.say if final else lambda text: quantization.say(f"trial: {text}"),
            name=quantization.name,
        )

    kept, notes = _judged_changes(
        model, [word for word in _MARKS if word in wanted], measured, judging, quantized, options
    )
    network, names = _changed(model, kept, stacked(samples, model), options)
    program = quantized(network, kept, final=True)
    return replace(with_names(program, names), notes=(*program.notes, *notes))


def _judged_changes(
    model: Model,
    words: Sequence[str],
    measured: Samples,
    judging: Samples,
    quantized: Callable[..., AffineProgram],
    options: OnnxQdqOptions,
) -> tuple[tuple[str, ...], list[str]]:
    """Which changes of the float network's weights are kept, each against what was kept before, and notes on them.

    Neither program of a comparison has measured on the inputs that judge, and none has adaptive rounding.
    """
    kept: tuple[str, ...] = ()
    notes: list[str] = []
    if not words:
        return kept, notes
    reference = float_outputs(model, judging)
    was = mean_sqnr(outputs_of(quantized(model, kept, final=False), judging), reference)
    for word in words:
        label = _LABELS[word]
        before, _ = _changed(model, kept, measured, options)
        found = _change(before, word, measured, options)
        if not found.values:
            notes.extend((f"{label}: no channels can be scaled", *found.declined))
            continue
        now = mean_sqnr(outputs_of(quantized(found.model, (*kept, word), final=False), judging), reference)
        verdict = "kept" if now >= was else "undone"
        notes.append(f"{label} {verdict}: {was:.2f} dB without, {now:.2f} dB with, on held-out inputs")
        if now >= was:
            kept, was = (*kept, word), now
    return kept, notes


def _change(model: Model, word: str, samples: Samples, options: OnnxQdqOptions) -> Equalized | Balanced:
    if word == "equalize":
        return equalize(model, samples)
    wide, heavy = options.precision != "int8", options.precision == "int16"
    scheme = AffineScheme(
        per_channel=options.weights == "per_channel",
        symmetric_activations=options.symmetric_activations,
        activation_bits=16 if wide else 8,
        weight_bits=16 if heavy else 8,
    )
    return balance(model, samples, scheme)


def _changed(
    model: Model, words: Sequence[str], samples: Samples, options: OnnxQdqOptions
) -> tuple[Model, dict[str, str]]:
    """The model with these changes, and names for the values whose channels they scaled, by those in the model.

    Scaled values are not those of the network any more, and nothing shall compare them.
    """
    names: dict[str, str] = {}
    for word in words:
        found = _change(model, word, samples, options)
        model = found.model
        names |= {name: names.get(name, name) + _MARKS[word] for name in found.values}
    return model, names


def source_of(
    program: AffineProgram, model: Model, samples: Callable[[int], Sequence[Sample]], options: OnnxQdqOptions
) -> tuple[Model, AffineProgram]:
    """The float network that `to_program` made the program of, and the program with that network's names.

    Without equalisation and balancing these are `model` and `program` themselves.
    """
    equalized, balanced = _MARKS.values()
    ends = {"equalize": (equalized, equalized + balanced), "balance": (balanced,)}
    words = [word for word, marks in ends.items() if any(name.endswith(marks) for name in program.tensors)]
    if not words:
        return model, program
    network, names = _changed(model, words, stacked(samples(options.correction_images), model), options)
    return network, with_names(program, {new: name for name, new in names.items()})


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


def _measuring(samples: Sequence[Sample]) -> list[Sample]:
    return [sample for index, sample in enumerate(samples) if index % _JUDGING]


def wanted_corrections(quantization: Quantization) -> Sequence[str]:
    """Those of the recipe, or the default ones."""
    asked = quantization.calibration.corrections
    return DEFAULT_CORRECTIONS if asked is None else asked


def scheme_of(quantization: Quantization, options: OnnxQdqOptions) -> AffineScheme:
    """The recipe's words as a scheme."""
    settings = quantization.calibration
    return AffineScheme(
        per_channel=options.weights == "per_channel",
        symmetric_weights=options.symmetric_weights,
        symmetric_activations=options.symmetric_activations,
        activation_method=settings.method,
        weight_method=options.weight_method,
        percentile=settings.percentile,
        bias_correction="bias_correction" in wanted_corrections(quantization),
        activation_bits=8 if options.precision == "int8" else 16,
        weight_bits=16 if options.precision == "int16" else 8,
        headroom=settings.headroom,
    )


def trial_program(
    model: Model,
    quantization: Quantization,
    options: OnnxQdqOptions,
    samples: Sequence[Sample],
    formats: WeightFormats,
) -> AffineProgram:
    """What `to_program` makes, up to its corrections: of those there is bias correction alone, if it is wanted.

    It is measured on `samples`, and not judged. A search makes one for every set of layers that it tries.
    """
    scheme, measured = scheme_of(quantization, options), None
    if scheme.bias_correction and len(samples) >= _FEWEST:
        measured = stacked(samples, model)
    return quantize_affine(
        model, quantization.statistics, scheme, samples=measured, formats=formats, name=quantization.name
    )


def stacked(samples: Sequence[Sample], model: Model) -> Samples:
    """[N, ...] by input name."""
    return {spec.name: np.concatenate([sample.inputs[spec.name] for sample in samples]) for spec in model.inputs}


def observed_again(model: Model, samples: Sequence[Sample], stats: CalibrationStats) -> CalibrationStats:
    """Ranges of a network whose inner values changed their widths; of its inputs, all images' ranges are kept."""
    found = calibrate(
        model,
        {spec.name: [sample.inputs[spec.name] for sample in samples] for spec in model.inputs},
        {spec.name: Preprocess.from_recipe(None, spec.shape) for spec in model.inputs},
        method=stats.method if stats.method in ("percentile", "mse", "kl") else "max",  # type: ignore[arg-type]
        percentile=stats.percentile or 99.99,
    )
    inputs = {spec.name for spec in model.inputs}
    ranges = {name: stats.ranges[name] if name in inputs else each for name, each in found.ranges.items()}
    kept = {
        name: stats.histograms.get(name, each) if name in inputs else each for name, each in found.histograms.items()
    }
    return replace(found, ranges=ranges, histograms=kept)
