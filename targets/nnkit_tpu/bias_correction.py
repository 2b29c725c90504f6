"""Biases that take back what rounding the weights adds to every output of a channel.

A rounded kernel differs from the real one by a fixed dw, so a channel's sums are off by dw * E[x] on average: after a
rectifier, whose values have a large mean, that can be most of what INT8 weights cost. E[x] of every input channel is
observed on calibration images in float, and the bias takes the sum back. The integer weights stay as they are: the
compiler reads other biases, no more.

Shifts of one layer may cancel shifts of another, so the whole is judged: by the outputs on held-out images, a
quarter of them at a time, and where the recipe did not ask for it, by a gain that is more than chance. What is kept
is observed on all of the images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model
from nnkit.program import Program
from nnkit.program.formats import Affine
from nnkit.program.window import Window
from nnkit.quantize.bias_correction import BIAS_CORRECTION, LABEL, channel_means
from nnkit.quantize.judge import (
    MANY,
    Judge,
    Verdict,
    accuracy_in_quarters,
    better_in_both,
    clearly_better,
    no_worse,
    too_few,
)
from nnkit.samples import Sample
from nnkit.target import Quantization
from nnkit_tpu.integer_parameters import IntegerWeights
from nnkit_tpu.program import FloatArray, TpuConv, TpuGraph, TpuMatMul

FEWEST = 4
"""Images; means of inputs need fewer than sums of rounded layers."""

SAMPLES = 32
"""At most so many judge."""

_CLEARLY = 2.0  # standard errors that it gains by where nobody asked, as a method of calibration has to

Means = Mapping[str, NDArray[np.float64]]
"""By tensor: [C]."""


def corrects_biases(quantization: Quantization) -> bool:
    """Whether the recipe asks for it; one that says nothing does where there are images enough."""
    asked = quantization.calibration.corrections
    return len(quantization.samples(FEWEST)) >= FEWEST if asked is None else BIAS_CORRECTION in asked


def corrected(
    model: Model,
    graph: TpuGraph,
    program: Program,
    quantization: Quantization,
    quantise: Callable[[TpuGraph], Program],
    weights: TpuGraph | None = None,
) -> Program:
    """`program`, which `quantise` made of `graph`, or a better one with corrected biases; a note says which.

    weights: the graph with the float network's weights, where those of `graph` are on the program's grid already.

    Raises RecipeError where there are too few calibration images.
    """

    def correct(measured: Sequence[Sample]) -> Program:
        return quantise(with_corrected_biases(graph, program, input_means(model, graph, measured), weights))

    kept, note = judged(LABEL, model, program, quantization, correct)
    chosen = correct(quantization.samples(SAMPLES)) if kept else program
    return replace(chosen, notes=(*program.notes, note))


def judged(
    label: str,
    model: Model,
    program: Program,
    quantization: Quantization,
    correct: Callable[[Sequence[Sample]], Program],
) -> Verdict:
    """Whether the program that `correct` makes of samples is kept instead of `program`, by a quarter at a time.

    Raises RecipeError where there are too few calibration images.
    """
    samples = quantization.samples(SAMPLES)
    if len(samples) < FEWEST:
        raise too_few(len(samples), FEWEST)
    without, with_it = accuracy_in_quarters(
        model, program, samples, lambda index, measured: (program, correct(measured))
    )
    judge = judge_of(asked=quantization.calibration.corrections is not None, judged_on=without.each_db.size)
    return judge(label, without, with_it)


def judge_of(*, asked: bool, judged_on: int) -> Judge:
    """Where nobody asked: two standard errors of the gain, which tell something from 16 images on; with fewer, a gain
    of all images together and of the mean one."""
    if asked:
        return no_worse
    return partial(clearly_better, errors=_CLEARLY) if judged_on >= MANY else better_in_both


def input_means(model: Model, graph: TpuGraph, samples: Sequence[Sample]) -> Means:
    """What the inputs of the graph's convolutions are on average over the samples, by ONNX Runtime.

    Tensors that the model does not have, because lowering made them, are left out.
    """
    wanted = dict.fromkeys(op.inputs[0] for op in graph.ops if isinstance(op, TpuConv))
    values = values_of(model)
    return channel_means(model, [name for name in wanted if name in values], samples)


def values_of(model: Model) -> set[str]:
    """The names of a model's inputs and of what its nodes make."""
    values = {name for node in model.proto().graph.node for name in node.output}
    return values | {value.name for value in model.inputs}


def with_corrected_biases(
    graph: TpuGraph, program: Program, means: Means, weights: TpuGraph | None = None
) -> TpuGraph:
    """The float graph with biases for the integer weights of `program`, which was made of it.

    weights: the graph with the weights to take them from; `graph` itself unless given.
    """
    quantised = {op.output: op for op in program.ops if isinstance(op, TpuConv)}
    real = {op.output: op for op in (weights or graph).ops if isinstance(op, TpuConv)}
    ops = []
    for op in graph.ops:
        if isinstance(op, TpuConv) and op.inputs[0] in means:
            shape, mean = graph.tensors[op.inputs[0]].shape, means[op.inputs[0]]
            op = replace(op, bias=_corrected(real[op.output], quantised[op.output], program, mean, shape))
        ops.append(op)
    return replace(graph, ops=tuple(ops))


def _corrected(
    op: TpuConv, quantised: TpuConv, program: Program, mean: NDArray[np.float64], input_shape: Sequence[int]
) -> FloatArray | None:
    factor, integer = weight_scales(quantised, program), quantised.integer
    if factor is None or not isinstance(integer, IntegerWeights):
        return op.bias  # a layer in floats
    if mean.size != op.group * op.weight.shape[1]:
        return op.bias  # values that the model has in another shape
    difference = op.weight.astype(np.float64) - integer.weight * factor.reshape(-1, 1, 1, 1)
    share = _share_inside(op.window, input_shape[2], input_shape[3])
    by_input = (difference * share).sum(axis=(2, 3)).reshape(op.group, -1, op.weight.shape[1])
    bias = np.einsum("goi,gi->go", by_input, mean.reshape(op.group, -1)).reshape(-1)
    if op.bias is not None:
        bias = bias + op.bias.astype(np.float64)
    return np.asarray(bias, np.float32)


def weight_scales(quantised: TpuConv | TpuMatMul, program: Program) -> NDArray[np.float64] | None:
    """[1] or [O]: the real weight of one stored unit; None for a layer in floats."""
    source, stored = quantised.casts[0].target, program.tensors[quantised.output].format
    integer = quantised.integer
    if not (isinstance(integer, IntegerWeights) and isinstance(source, Affine) and isinstance(stored, Affine)):
        return None
    stage = integer.requant
    return np.asarray(
        stage.multiplier * np.exp2(-stage.shift.astype(np.float64)) * stored.scale[0] / source.scale[0], np.float64
    )


def _share_inside(window: Window, height: int, width: int) -> NDArray[np.float64]:
    """[kh, kw]: for which share of the output positions a tap reads the image, not padding."""
    rows, columns = window.output_hw(height, width)
    return np.outer(
        _share(rows, window.kernel_h, window.stride_h, window.dilation_h, window.pad_top, height),
        _share(columns, window.kernel_w, window.stride_w, window.dilation_w, window.pad_left, width),
    )


def _share(count: int, taps: int, stride: int, dilation: int, before: int, length: int) -> NDArray[np.float64]:
    at = np.arange(count) * stride + np.arange(taps)[:, None] * dilation - before
    return np.asarray(((at >= 0) & (at < length)).mean(axis=1))
