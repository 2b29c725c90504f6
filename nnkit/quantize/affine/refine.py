"""Range refinement: an addition's operand needs no levels for numbers that the Relu behind the addition cuts off.

A far negative operand of a residual addition leads to a sum below zero whatever its exact value, so that the error of
clipping it does not reach the sum. The method `mse` does not see that: it weighs all numbers alike. So the low end of
such values is raised as far as the error *behind* the activation gets less for it, measured on samples against the
float network. High ends stay: what calibration has not seen lies beyond them, and it is not cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nnkit.program.affine import AffineTensor
from nnkit.program.formats import Affine
from nnkit.quantize.affine.float_run import activate, all_values
from nnkit.quantize.affine.ranges import affine_format
from nnkit.quantize.affine.widths import keeps_format
from nnkit.quantize.float_program import FloatAdd, FloatOp, FloatProgram
from nnkit.quantize.known_ranges import known_range

SHARES = tuple(round(1.0 - 0.05 * step, 2) for step in range(15))
"""The parts of the low end that are tried, widest first; among equal errors the widest wins."""


def refined_tensors(
    layers: FloatProgram, tensors: Mapping[str, AffineTensor], samples: Mapping[str, NDArray[np.float32]]
) -> dict[str, AffineTensor]:
    """The tensors, with higher low ends where that lowers the squared error behind the additions that read them.

    layers: of `split_pools`; samples: [N, ...] in real units by input name.
    """
    readers = operands(layers, tensors)
    candidates = {name: [_raised(tensors[name].format, share) for share in SHARES] for name in readers}
    errors: dict[str, NDArray[np.float64]] = {name: np.zeros(len(SHARES)) for name in readers}
    for values in all_values(layers, samples) if readers else ():
        for name, additions in readers.items():
            for index, form in enumerate(candidates[name]):
                stored = form.dequantize(form.quantize(values[name])).astype(np.float32)
                for layer in additions:
                    a, b = (stored if source == name else values[source] for source in layer.inputs)
                    difference = activate(a + b, layer.nonlinearity) - values[layer.output]
                    errors[name][index] += np.square(difference, dtype=np.float64).sum()
    chosen = {name: candidates[name][int(np.argmin(errors[name]))] for name in readers}
    return {
        name: AffineTensor(name, tensor.shape, chosen[name]) if name in chosen else tensor
        for name, tensor in tensors.items()
    }


def operands(layers: FloatProgram, tensors: Mapping[str, AffineTensor]) -> dict[str, tuple[FloatAdd, ...]]:
    """By value with a low end to raise, the additions that read it: nothing else does, and all are cut off below."""
    written = {layer.output for layer in layers.ops if not keeps_format(layer) and known_range(layer, 8) is None}
    by_value = {}
    for name in sorted(written - set(layers.outputs)):
        form = tensors[name].format
        reading = [layer for layer in layers.ops if name in layer.inputs]
        additions = tuple(layer for layer in reading if isinstance(layer, FloatAdd))
        if form.signed or form.bits != 8 or form.zero_point[0] == 0 or len(additions) != len(reading):
            continue
        if additions and all(_cut_off(layer) and _same_shapes(layer, layers) for layer in additions):
            by_value[name] = additions
    return by_value


def _cut_off(layer: FloatAdd) -> bool:
    return layer.activation is not None and layer.activation.slopes is None and layer.activation.low is not None


def _same_shapes(layer: FloatOp, layers: FloatProgram) -> bool:
    return len({layers.shapes[name] for name in layer.inputs}) == 1


def _raised(form: Affine, share: float) -> Affine:
    if share == 1.0:
        return replace(form)
    scale, zero = form.scale[0], form.zero_point[0]
    return affine_format(-zero * scale * share, (form.qmax - zero) * scale, symmetric=False)
