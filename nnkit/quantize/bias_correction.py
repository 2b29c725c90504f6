"""Biases that take back the shift of each convolution's mean: what all arithmetics share, and that of fixed point.

Rounded weights, rounded inputs and clipped ones shift the mean of a channel's sums; the bias, which has the
accumulator's resolution, takes the shift back. What comes of it is judged by the outputs on held-out images, and
undone where it harms. In fixed point, layers are corrected strictly in order, each behind layers that are corrected
already, by the float network's sums (before the activation) on calibration images. `nnkit.quantize.affine` walks its
layers in the same way; a target that cannot run its layers one by one brings a formula of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Conv2d, OpBase, Program
from nnkit.program.inputs import quantized_inputs
from nnkit.quantize.judge import FEWEST, better_of, program_sqnr_db, set_apart, too_few
from nnkit.quantize.proof import wide_bound
from nnkit.samples import Sample
from nnkit.simulate import simulate_op

BIAS_CORRECTION = "bias_correction"
"""Its name in a recipe's `calibration.corrections`."""

LABEL = "bias correction"
"""Its name in notes."""

SAMPLES = 32


def judged(
    model: Model,
    program: Program,
    samples: Sequence[Sample],
    correct: Callable[[Sequence[Sample]], Program],
) -> Program:
    """`program`, or what `correct` makes of it with most of the samples, where the others find that better; noted.

    Raises RecipeError where there are fewer than `FEWEST` samples.
    """
    if len(samples) < FEWEST:
        raise too_few(len(samples))
    measured, judging = set_apart(samples)
    candidate = correct(measured)
    without_db, with_db = (program_sqnr_db(model, each, judging) for each in (program, candidate))
    return better_of(program, candidate, LABEL, without_db, with_db)


def channel_means(model: Model, names: Sequence[str], samples: Sequence[Sample]) -> dict[str, NDArray[np.float64]]:
    """By value name: [C], over all samples and positions of [1, C, ...], by ONNX Runtime."""
    session = FloatSession(model, fetch=names)
    totals: dict[str, NDArray[np.float64]] = {}
    for sample in samples:
        for name, value in session.run(sample.inputs).items():
            totals[name] = totals.get(name, 0.0) + value.mean(axis=(0, *range(2, value.ndim)), dtype=np.float64)
    return {name: total / len(samples) for name, total in totals.items()}


def corrected(model: Model, program: Program, samples: Sequence[Sample]) -> Program:
    """`program`, which was made of the restructured `model`, or a better one with other biases; a note says which.

    Raises RecipeError where there are too few samples, or sums are rounded channel by channel (`running`).
    """
    if any(isinstance(op, Conv2d) and op.accumulate == "running" for op in program.ops):
        raise RecipeError(
            "biases cannot be corrected where sums are rounded after every input channel",
            where="calibration.corrections",
            remedy=f"set `accumulate: wide`, or remove {BIAS_CORRECTION!r}",
        )
    return judged(model, program, samples, lambda measured: with_corrected_biases(model, program, measured))


def with_corrected_biases(model: Model, program: Program, samples: Sequence[Sample]) -> Program:
    """Every convolution whose float sums the model has; a bias that would break an accumulator's proof stays."""
    sums = {node.name: node.output[0] for node in model.proto().graph.node if node.op_type == "Conv"}
    wanted = {op.name: sums[op.name] for op in program.ops if isinstance(op, Conv2d) and op.name in sums}
    means = channel_means(model, list(dict.fromkeys(wanted.values())), samples)
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
    computed = sum(op.accumulators(x).mean(axis=(1, 2)) for x in inputs) / len(inputs) * 2.0**-frac
    shift = np.floor((mean - computed) * 2.0**op.bias_frac + 0.5).astype(np.int64)
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
