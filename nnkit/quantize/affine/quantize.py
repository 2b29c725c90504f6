"""The affine quantiser: model + calibration + samples -> integer program, with corrections that are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from nnkit.quantize.layers import FloatLayer, FloatLayers, StoredWeights
from nnkit.quantize.lowering import lower
from nnkit.simulate.affine import simulate_affine
from nnkit.verify.metrics import DistanceSum

Samples = Mapping[str, NDArray[np.float32]]
BIAS_CORRECTION = "bias correction"
REFINED_RANGES = "refined ranges"
ADAROUND = "adaptive rounding"


def quantize_affine(
    model: Model,
    stats: CalibrationStats,
    scheme: AffineScheme,
    *,
    samples: Samples | None = None,
    held_out: Samples | None = None,
    weights: Mapping[str, StoredWeights] | None = None,
    formats: WeightFormats | None = None,
    refine_ranges: bool = False,
    adaround: AdaRound | None = None,
    measure_anew: bool = True,
    memory_bytes: int = DEFAULT_BYTES,
    on_rounding: Callable[[RoundingReport], object] = lambda report: None,
    say: Callable[[str], object] = lambda text: None,
    name: str = "network",
) -> AffineProgram:
    """Restructured model + calibrated ranges -> affine integer program.

    samples: [N, ...] inputs in real units that bias correction measures on; without them there is none.
    held_out: other inputs; with them a correction that lowers the outputs' SQNR there is undone, and a note says so.
        One that is kept is measured anew on all inputs, unless `measure_anew` is false: who compares two programs
        on these inputs wants neither to have seen them.
    weights: integer weights by layer name (`read_qdq`), used as they are where the model still has their values.
    formats: those of an earlier call for the same network and scheme, which then need not be found again.
    refine_ranges: low ends of what is added before a Relu are raised (`refine`), on `samples`.
    adaround: with it weights are rounded adaptively, on `samples`.
    memory_bytes: for values between layers while corrections measure; beyond it they go to temporary files.
    on_rounding: called for every layer that adaptive rounding has finished.
    say: told what is being corrected and at which layer.

    Raises ModelError for layers or ranges that cannot be quantised.
    """
    if formats is not None and formats.scheme != scheme:
        raise InternalError("the weights' formats are of another scheme", where=name)
    layers = split_pools(with_stored_weights(lower(model), weights or {}))
    found = choose_tensors(layers, stats, scheme)
    weight_formats = WeightFormats(scheme) if formats is None else formats
    plain = AffineProgram(
        name=name,
        tensors=found,
        ops=tuple(build_op(layer, found, weight_formats) for layer in layers.layers),
        inputs=layers.inputs,
        outputs=layers.outputs,
    )
    if samples is None or not (scheme.bias_correction or refine_ranges or adaround is not None):
        return plain

    def made(correction: _Correction, on: Samples, label: str) -> AffineProgram:
        tensors = found if not correction.refined else refined_tensors(layers, found, on)
        if not scheme.bias_correction and correction.search is None:
            ops = tuple(build_op(layer, tensors, weight_formats) for layer in layers.layers)
        else:
            ops = corrected_ops(
                layers,
                tensors,
                weight_formats,
                on,
                adaround=correction.search,
                memory_bytes=memory_bytes,
                on_rounding=on_rounding,
                on_layer=lambda index: say(f"{label}, layer {index + 1} of {len(layers.layers)}"),
            )
        return replace(plain, tensors=tensors, ops=ops)

    chosen, kept = plain, _Correction()
    steps: list[tuple[str, bool, AdaRound | None]] = []
    if scheme.bias_correction:
        steps.append((BIAS_CORRECTION, False, None))
    if refine_ranges and operands(layers, found):
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
        better = after if held_out is None else keep_better(chosen, after, model, held_out, label)
        if better.ops is after.ops:
            kept = final = correction
        chosen = better
    if held_out is None or final is None or not measure_anew:
        return chosen
    everything = _joined(samples, held_out, layers.inputs)
    return replace(made(final, everything, "corrections on all inputs"), notes=chosen.notes)


@dataclass(frozen=True)
class _Correction:
    """What a program is corrected by, beside its biases."""

    refined: bool = False
    search: AdaRound | None = None


def with_stored_weights(layers: FloatLayers, weights: Mapping[str, StoredWeights]) -> FloatLayers:
    """The layers with the integers that their weights came from; not where a rewrite has changed the weights."""

    def attached(layer: FloatLayer) -> FloatLayer:
        found = weights.get(layer.name)
        if found is None or layer.weight is None:
            return layer
        if found.values.ndim == 2:  # a matrix product became a 1x1 convolution: [O, I] or its transpose
            turned = found.values.shape != layer.weight.shape[:2]
            axis = found.axis if found.axis is None or not turned else 1 - found.axis
            values = found.values.T if turned else found.values
            found = replace(found, values=values[:, :, None, None], axis=axis)
        if found.values.shape != layer.weight.shape:
            return layer
        same = np.allclose(found.real(), layer.weight, rtol=1e-6, atol=1e-6 * float(found.scale.max()))
        return replace(layer, stored=found) if same else layer

    return replace(layers, layers=tuple(attached(layer) for layer in layers.layers))


def _joined(samples: Samples, held_out: Samples, names: tuple[str, ...]) -> Samples:
    return {name: np.concatenate([samples[name], held_out[name]]) for name in names}


def keep_better(
    before: AffineProgram, after: AffineProgram, model: Model, held_out: Samples, correction: str
) -> AffineProgram:
    """`after` where its outputs are no worse on the held-out inputs (mean SQNR), else `before`; noted."""
    reference = float_outputs(model, held_out)
    was, now = (mean_sqnr(outputs_of(program, held_out), reference) for program in (before, after))
    verdict = "kept" if now >= was else "undone"
    note = f"{correction} {verdict}: {was:.2f} dB without, {now:.2f} dB with, on held-out inputs"
    kept = after if now >= was else before
    return replace(kept, notes=(*before.notes, note))


def outputs_of(program: AffineProgram, samples: Samples) -> dict[str, NDArray[np.float64]]:
    """The program's outputs in real units for inputs in real units, [N, ...]."""
    stored = {name: program.tensors[name].format.quantize(samples[name]) for name in program.inputs}
    return {
        name: program.tensors[name].format.dequantize(values)
        for name, values in simulate_affine(program, stored).items()
    }


def float_outputs(model: Model, samples: Samples) -> dict[str, NDArray[Any]]:
    """The float model's outputs for [N, ...] inputs, by ONNX Runtime."""
    runner = FloatSession(model)
    count = len(next(iter(samples.values())))
    rows = [runner.run({name: values[i : i + 1] for name, values in samples.items()}) for i in range(count)]
    return {spec.name: np.concatenate([row[spec.name] for row in rows]) for spec in model.outputs}


def mean_sqnr(values: Mapping[str, NDArray[Any]], reference: Mapping[str, NDArray[Any]]) -> float:
    """SQNR in dB, averaged over the outputs."""
    ratios = []
    for name, expected in reference.items():
        total = DistanceSum()
        total.add(values[name], expected)
        ratios.append(total.result().sqnr_db)
    return float(np.mean(ratios))
