"""Biases of a fixed-point program that take back the shift of each convolution's mean.

Rounded weights, rounded inputs and clipped ones shift the mean of a channel's sums; the bias, which has the
accumulator's resolution, takes the shift back. Layers are corrected strictly in order, each behind layers that are
corrected already, by the float network's sums (before the activation) on calibration images. The result is judged by
the outputs on images kept aside, and undone where it does not help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Conv2d, Fixed, OpBase, OutputStage, Program, Tensor
from nnkit.quantize.proof import wide_bound
from nnkit.simulate import simulate, simulate_op
from nnkit.simulate.convolution import conv2d
from nnkit.verify.metrics import DistanceSum
from nnkit.verify.samples import Sample, quantized_inputs

BIAS_CORRECTION = "bias_correction"
"""Its name in a recipe's `calibration.corrections`."""

SAMPLES = 32
_FEWEST = 8
_JUDGING = 4  # every fourth sample judges, the others are measured
_UNBOUNDED = 1 << 62


def corrected(model: Model, program: Program, samples: Sequence[Sample]) -> Program:
    """`program`, which was made of the restructured `model`, or a better one with other biases; a note says which.

    Raises RecipeError where there are too few samples, or sums are rounded channel by channel (`running`).
    """
    if len(samples) < _FEWEST:
        raise RecipeError(
            f"biases are corrected on calibration images, and there are {len(samples)}",
            where="calibration.corrections",
            remedy=f"give at least {_FEWEST} images, or remove {BIAS_CORRECTION!r}",
        )
    if any(isinstance(op, Conv2d) and op.accumulate == "running" for op in program.ops):
        raise RecipeError(
            "biases cannot be corrected where sums are rounded after every input channel",
            where="calibration.corrections",
            remedy=f"set `accumulate: wide`, or remove {BIAS_CORRECTION!r}",
        )
    measured = [sample for index, sample in enumerate(samples) if index % _JUDGING]
    candidate = with_corrected_biases(model, program, measured)
    without, with_it = (_sqnr_db(model, each, samples[::_JUDGING]) for each in (program, candidate))
    better = with_it > without
    note = (
        f"bias correction {'kept' if better else 'undone'}: {without:.2f} dB without, {with_it:.2f} dB with, "
        "on held-out inputs"
    )
    kept = candidate if better else program
    return replace(kept, notes=(*kept.notes, note))


def with_corrected_biases(model: Model, program: Program, samples: Sequence[Sample]) -> Program:
    """Every convolution whose float sums the model has; a bias that would break an accumulator's proof stays."""
    sums = {node.name: node.output[0] for node in model.proto().graph.node if node.op_type == "Conv"}
    wanted = {op.name: sums[op.name] for op in program.ops if isinstance(op, Conv2d) and op.name in sums}
    means = _channel_means(model, list(dict.fromkeys(wanted.values())), samples)
    values: list[dict[str, NDArray[Any]]] = [quantized_inputs(program, sample) for sample in samples]
    last = {name: index for index, op in enumerate(program.ops) for name in op.inputs}
    ops: list[OpBase] = []
    for index, op in enumerate(program.ops):
        if isinstance(op, Conv2d) and op.name in wanted:
            op = _corrected(op, program, [known[op.inputs[0]] for known in values], means[wanted[op.name]])
        for known in values:
            known[op.output] = simulate_op(program, op, [known[name] for name in op.inputs])
            for name in op.inputs:
                if last[name] == index:
                    known.pop(name, None)
        ops.append(op)
    return replace(program, ops=tuple(ops))


def _corrected(op: Conv2d, program: Program, inputs: Sequence[NDArray[Any]], mean: NDArray[np.float64]) -> Conv2d:
    """With the bias that gives the float mean [O] on these inputs."""
    frac = op.bias_frac + op.bias_shift
    out_h, out_w = op.window.output_hw(*inputs[0].shape[-2:])
    raw = Tensor(op.output, (len(op.bias), out_h, out_w), Fixed(64, frac))
    summing = replace(op, pool=None, accumulator="int64", stage=OutputStage(0, -_UNBOUNDED, _UNBOUNDED))
    found = sum(conv2d(summing, x, raw, None).mean(axis=(1, 2)) for x in inputs) / len(inputs) * 2.0**-frac
    shift = np.floor((mean - found) * 2.0**op.bias_frac + 0.5).astype(np.int64)
    bias = op.bias.astype(np.int64) + shift
    source = program.tensors[op.inputs[0]]
    low, high = min(source.low, op.pad_value), max(source.high, op.pad_value)
    if np.abs(bias).max(initial=0) >= 1 << 31:
        return op
    if (
        op.accumulator == "int32"
        and not wide_bound(op.weight, bias, low, high, op.bias_shift, op.stage.shift).fits_int32
    ):
        return op
    return replace(op, bias=bias.astype(np.int32))


def _channel_means(
    model: Model, names: Sequence[str], samples: Sequence[Sample]
) -> Mapping[str, NDArray[np.float64]]:
    """By value name: [C], over all samples and positions, by ONNX Runtime."""
    session = FloatSession(model, fetch=names)
    totals: dict[str, NDArray[np.float64]] = {}
    for sample in samples:
        for name, value in session.run(sample.inputs).items():
            mean = value.mean(axis=(0, 2, 3), dtype=np.float64) / len(samples)
            totals[name] = totals[name] + mean if name in totals else mean
    return totals


def _sqnr_db(model: Model, program: Program, samples: Sequence[Sample]) -> float:
    """Of all outputs together over all samples."""
    session = FloatSession(model, fetch=program.outputs)
    total = DistanceSum()
    for sample in samples:
        expected, found = session.run(sample.inputs), simulate(program, quantized_inputs(program, sample))
        for name in program.outputs:
            total.add(program.tensors[name].format.dequantize(found[name]), expected[name])
    return total.result().sqnr_db
