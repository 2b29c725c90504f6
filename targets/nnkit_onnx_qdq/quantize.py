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
from nnkit.quantize.affine import AffineScheme, Equalized, WeightFormats, equalize, quantize_affine
from nnkit.quantize.affine.adaround import AdaRound
from nnkit.quantize.affine.quantize import Samples, float_outputs, mean_sqnr, outputs_of
from nnkit.target import Quantization
from nnkit.verify.samples import Sample
from nnkit_onnx_qdq.options import OnnxQdqOptions

DEFAULT_CORRECTIONS = ("bias_correction",)
_JUDGING = 4  # every fourth image judges
_EQUALIZED = ".equalized"
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

    def quantized(network: Model, stats: CalibrationStats, known: WeightFormats | None) -> AffineProgram:
        return quantize_affine(
            network,
            stats,
            scheme,
            samples=measured,
            held_out=judging,
            formats=known,
            adaround=search,
            name=quantization.name,
        )

    program = quantized(model, quantization.statistics, formats)
    if "equalize" not in wanted:
        return program
    equalized = equalize(model, measured)
    if not equalized.pairs:
        note = "equalisation: no two layers can be equalised"
        return replace(program, notes=(*program.notes, note, *equalized.declined))
    after = quantized(equalized.model, observed_again(equalized.model, samples, quantization.statistics), None)
    reference = float_outputs(model, judging)
    was, now = (mean_sqnr(outputs_of(each, judging), reference) for each in (program, after))
    verdict = "kept" if now >= was else "undone"
    note = f"equalisation {verdict}: {was:.2f} dB without, {now:.2f} dB with, on held-out inputs"
    kept = with_names(after, _own_names(equalized)) if now >= was else program
    return replace(kept, notes=(*kept.notes, note))


def source_of(
    program: AffineProgram, model: Model, samples: Callable[[int], Sequence[Sample]], options: OnnxQdqOptions
) -> tuple[Model, AffineProgram]:
    """The float network that `to_program` made the program of, and the program with that network's names.

    Without equalisation these are `model` and `program` themselves.
    """
    if not any(name.endswith(_EQUALIZED) for name in program.tensors):
        return model, program
    equalized = equalize(model, stacked(_measuring(samples(options.correction_images)), model))
    back = {new: name for name, new in _own_names(equalized).items()}
    return equalized.model, with_names(program, back)


def named_as_imported(program: AffineProgram) -> AffineProgram:
    """The program with the float network's names for values whose channels an equalisation has scaled."""
    scaled = [name for name in program.tensors if name.endswith(_EQUALIZED)]
    return with_names(program, {name: name.removesuffix(_EQUALIZED) for name in scaled})


def _own_names(equalized: Equalized) -> dict[str, str]:
    """Scaled values are not those of the network any more, and nothing shall compare them."""
    return {name: f"{name}{_EQUALIZED}" for name in equalized.values}


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
