"""The affine quantiser: model + calibration + samples -> integer program, with corrections that are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import InternalError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program.affine import AffineProgram
from nnkit.quantize.affine.adaround import AdaRound, RoundingReport
from nnkit.quantize.affine.build import build_op, choose_tensors, split_pools
from nnkit.quantize.affine.corrections import corrected_ops
from nnkit.quantize.affine.ranges import WeightFormats
from nnkit.quantize.affine.refine import operands, refined_tensors
from nnkit.quantize.affine.scheme import AffineScheme
from nnkit.quantize.affine.spool import DEFAULT_BYTES
from nnkit.quantize.bias_correction import LABEL
from nnkit.quantize.float_program import FloatArray, FloatConvolution, FloatOp, FloatProgram, StoredWeights
from nnkit.quantize.judge import better_of, outputs_sqnr_db
from nnkit.quantize.lowered import LoweredLayers
from nnkit.simulate import simulate_many

Samples = Mapping[str, NDArray[np.float32]]
REFINED_RANGES = "refined ranges"
ADAROUND = "adaptive rounding"


@dataclass(frozen=True, eq=False)
class Corrections:
    """What corrections are measured on, and which there are beside that of biases, which the scheme asks for.

    samples: [N, ...] inputs in real units that they are measured on.
    held_out: other inputs; with them a correction that lowers the outputs' SQNR there is undone, and a note says so.
        One that is kept is measured anew on all inputs, unless `measure_anew` is false: who compares two programs
        on these inputs wants neither to have seen them.
    refine_ranges: low ends of what is added before a Relu are raised (`refine`).
    adaround: with it weights are rounded adaptively.
    memory_bytes: for values between layers while corrections measure; beyond it they go to temporary files.
    on_rounding: called for every layer that adaptive rounding has finished.
    """

    samples: Samples
    held_out: Samples | None = None
    refine_ranges: bool = False
    adaround: AdaRound | None = None
    measure_anew: bool = True
    memory_bytes: int = DEFAULT_BYTES
    on_rounding: Callable[[RoundingReport], object] = lambda report: None


def quantize_affine(
    network: LoweredLayers,
    stats: CalibrationStats,
    scheme: AffineScheme,
    corrections: Corrections | None = None,
    *,
    weights: Mapping[str, StoredWeights] | None = None,
    formats: WeightFormats | None = None,
    say: Callable[[str], object] = lambda text: None,
    name: str = "network",
) -> AffineProgram:
    """Lowered network + calibrated ranges -> affine integer program.

    corrections: None: there are none, not even of biases.
    weights: integer weights by layer name (`read_qdq`), used as they are where the network still has their values.
    formats: those of an earlier call for the same network and scheme, which then need not be found again.
    say: told what is being corrected and at which layer.

    Raises ModelError for ranges that cannot be quantised.
    """
    if formats is not None and formats.scheme != scheme:
        raise InternalError("the weights' formats are of another scheme", where=name)
    layers = split_pools(with_stored_weights(network.layers, weights or {}))
    chosen_tensors = choose_tensors(layers, stats, scheme)
    weight_formats = WeightFormats(scheme) if formats is None else formats
    plain = AffineProgram(
        name=name,
        tensors=chosen_tensors,
        ops=tuple(build_op(layer, chosen_tensors, weight_formats) for layer in layers.ops),
        inputs=layers.inputs,
        outputs=layers.outputs,
    )
    if corrections is None:
        return plain
    samples, held_out, adaround = corrections.samples, corrections.held_out, corrections.adaround
    refine_ranges = corrections.refine_ranges
    if not (scheme.bias_correction or refine_ranges or adaround is not None):
        return plain

    def made(correction: _Correction, on: Samples, label: str) -> AffineProgram:
        tensors = chosen_tensors if not correction.refined else refined_tensors(layers, chosen_tensors, on)
        if not scheme.bias_correction and correction.search is None:
            ops = tuple(build_op(layer, tensors, weight_formats) for layer in layers.ops)
        else:
            ops = corrected_ops(
                layers,
                tensors,
                weight_formats,
                on,
                adaround=correction.search,
                memory_bytes=corrections.memory_bytes,
                on_rounding=corrections.on_rounding,
                on_layer=lambda index: say(f"{label}, layer {index + 1} of {len(layers.ops)}"),
            )
        return replace(plain, tensors=tensors, ops=ops)

    chosen, kept = plain, _Correction()
    steps: list[tuple[str, bool, AdaRound | None]] = []
    if scheme.bias_correction:
        steps.append((LABEL, False, None))
    if refine_ranges and operands(layers, chosen_tensors):
        steps.append((REFINED_RANGES, True, None))
    elif refine_ranges:
        reason = "no addition is followed by a Relu alone, so there are none"
        chosen = replace(plain, notes=(f"{REFINED_RANGES}: {reason}",))
    if adaround is not None:
        taken = f" in {adaround.steps} steps a layer" if adaround.steps else ""
        steps.append((ADAROUND + taken, False, adaround))
    final: _Correction | None = None
    for label, refined, search in steps:  # each against what was kept before, measured on the same samples
        correction = _Correction(refined or kept.refined, search or kept.search)
        after = made(correction, samples, label)
        better = after if held_out is None else keep_better(chosen, after, network.model, held_out, label)
        if better.ops is after.ops:
            kept = final = correction
        chosen = better
    if held_out is None or final is None or not corrections.measure_anew:
        return chosen
    everything = _joined(samples, held_out, layers.inputs)
    return replace(made(final, everything, "corrections on all inputs"), notes=chosen.notes)


@dataclass(frozen=True)
class _Correction:
    """What a program is corrected by, beside its biases."""

    refined: bool = False
    search: AdaRound | None = None


def with_stored_weights(layers: FloatProgram, weights: Mapping[str, StoredWeights]) -> FloatProgram:
    """The layers with the integers that their weights came from; not where a rewrite has changed the weights."""

    def attached(layer: FloatOp) -> FloatOp:
        if not isinstance(layer, FloatConvolution):
            return layer
        names = (layer.name, *layer.tags.origins)
        given = next((weights[name] for name in names if name in weights), None)
        same = (form for form in _as_convolutions(given, layer.weight) if _is_same(form, layer.weight))
        stored = next(same, None)
        return layer if stored is None else replace(layer, stored=stored)

    return replace(layers, ops=tuple(attached(layer) for layer in layers.ops))


def _as_convolutions(given: StoredWeights | None, weight: FloatArray) -> Iterator[StoredWeights]:
    """The weights as a convolution may have them: a matrix became [O, I, H, W], itself or its transpose."""
    if given is None:
        return
    if given.values.ndim == 2 and weight.ndim == 4:
        turned = replace(given, values=given.values.T, axis=None if given.axis is None else 1 - given.axis)
        for each in (given, turned):
            if each.values.shape == (weight.shape[0], weight[0].size):
                yield replace(each, values=each.values.reshape(weight.shape))
    elif given.values.ndim == 3 and weight.ndim == 4 and given.values.size == weight.size:  # of one dimension
        yield replace(given, values=given.values.reshape(weight.shape))
    else:
        yield given


def _is_same(stored: StoredWeights, weight: FloatArray) -> bool:
    if stored.values.shape != weight.shape:
        return False
    return np.allclose(stored.real(), weight, rtol=1e-6, atol=1e-6 * float(stored.scale.max()))


def _joined(samples: Samples, held_out: Samples, names: tuple[str, ...]) -> Samples:
    return {name: np.concatenate([samples[name], held_out[name]]) for name in names}


def keep_better(
    before: AffineProgram, after: AffineProgram, model: Model, held_out: Samples, correction: str
) -> AffineProgram:
    """`after` where its outputs are no worse on the held-out inputs, else `before`; noted."""
    reference = float_outputs(model, held_out)
    was, now = (outputs_sqnr_db(outputs_of(program, held_out), reference) for program in (before, after))
    return better_of(before, after, correction, was, now)


def outputs_of(program: AffineProgram, samples: Samples) -> dict[str, NDArray[np.float64]]:
    """The program's outputs in real units for inputs in real units, [N, ...]."""
    stored = {name: program.tensors[name].format.quantize(samples[name]) for name in program.inputs}
    return {
        name: program.tensors[name].format.dequantize(values)
        for name, values in simulate_many(program, stored).items()
    }


def float_outputs(model: Model, samples: Samples) -> dict[str, NDArray[Any]]:
    """The float model's outputs for [N, ...] inputs, by ONNX Runtime."""
    runner = FloatSession(model)
    count = len(next(iter(samples.values())))
    rows = [runner.run({name: values[i : i + 1] for name, values in samples.items()}) for i in range(count)]
    return {spec.name: np.concatenate([row[spec.name] for row in rows]) for spec in model.outputs}
