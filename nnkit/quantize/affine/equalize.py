"""Cross-layer equalisation: scale a channel down where it leaves one convolution and up where the next one reads it.

For s > 0 and an activation with f(s x) = s f(x) (none, Relu, LeakyRelu, PRelu; pools too), W1 / s and b1 / s before
and W2 * s behind leave the float network's outputs as they are. s_c = sqrt(r1_c / r2_c), r the largest weight of
channel c on either side, makes both sides equally wide, so that one scale suits all channels. A depthwise layer
stands on both sides, one after the other. A bound above (Relu6) is the same for all channels, so that a channel that
reaches it cannot be scaled. Given samples, the channels that stay below it, with headroom, are scaled as far as they
then still do; without samples such pairs are left alone, and the reason is given.
Source: Nagel et al., "Data-free quantization through weight equalization and bias correction", 2019.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.quantize.affine.build import split_pools
from nnkit.quantize.affine.float_run import activate, before_activation
from nnkit.quantize.float_program import FloatArray, FloatAveragePool, FloatConv2d, FloatMaxPool, FloatProgram
from nnkit.quantize.lowered import LoweredLayers

_SWEEPS = 40
_SETTLED = 1e-3
_LARGEST_SCALE = 1e3  # of one step
_HEADROOM = 1.25  # on the largest values that were seen below a bound
_PART = 8  # samples that are run together
_DEAD = 1e-4  # of the widest channel: narrower ones are left as they are


@dataclass(frozen=True, eq=False)
class Equalized:
    """The equalised network (same values by name), the pairs of layers it scaled, and why others were left alone.

    values: names of the values whose channels were scaled, as a program of `split_pools` has them.
    """

    network: LoweredLayers
    pairs: tuple[tuple[str, str], ...]
    declined: tuple[str, ...]
    values: tuple[str, ...] = ()


def equalize(network: LoweredLayers, samples: Mapping[str, NDArray[np.float32]] | None = None) -> Equalized:
    """Equalise all pairs of convolutions of a network.

    samples: [N, ...] in real units by input name; with them pairs below a bound are scaled too, where the bound does
        not bind on these samples (the float network is then the same for inputs like them, not for all).
    """
    layers = network.layers
    pairs, declined = _pairs(layers, bounded=samples is not None)
    peaks = {} if samples is None else _peaks(layers, {first.name for first, _ in pairs}, samples)
    changed = {layer.name: layer for pair in pairs for layer in pair}
    names = tuple((a.name, b.name) for a, b in pairs)
    for _ in range(_SWEEPS):
        furthest = 0.0
        for first, second in names:
            scales = _scales(changed[first], changed[second])
            if first in peaks:
                scales = _below_bound(scales, peaks[first], changed[first])
                peaks[first] = peaks[first] / scales
            furthest = max(furthest, float(np.abs(np.log(scales)).max(initial=0.0)))
            changed[first], changed[second] = _scaled(changed[first], changed[second], scales)
        if furthest < _SETTLED:
            break
    values = tuple(value for pair in names for value in _between(split_pools(layers), *pair))
    equalized = network.with_convolutions(changed, "equalized") if names else network
    return Equalized(equalized, names, declined, values)


def _between(layers: FloatProgram, first: str, second: str) -> list[str]:
    """The values from one layer of a pair to the other."""
    producers = {layer.output: layer for layer in layers.ops}
    values = [next(layer for layer in layers.ops if layer.name == second).inputs[0]]
    while producers[values[-1]].name != first:
        values.append(producers[values[-1]].inputs[0])
    return values[::-1]


def _peaks(
    layers: FloatProgram, names: set[str], samples: Mapping[str, NDArray[np.float32]]
) -> dict[str, NDArray[np.float64]]:
    """By layer with a bound above: the largest value of each channel before the activation, with headroom."""
    peaks: dict[str, NDArray[np.float64]] = {}
    whole = split_pools(layers)
    count = len(next(iter(samples.values())))
    for start in range(0, count, _PART):
        values: dict[str, NDArray[Any]] = {name: samples[name][start : start + _PART] for name in layers.inputs}
        for layer in whole.ops:
            before = before_activation(layer, [values[name] for name in layer.inputs], whole.shapes[layer.output])
            if layer.name in names and layer.nonlinearity is not None and layer.nonlinearity.high is not None:
                peak = before.max(axis=(0, 2, 3)).astype(np.float64) * _HEADROOM
                peaks[layer.name] = np.maximum(peaks.get(layer.name, peak), peak)
            values[layer.output] = activate(before, layer.nonlinearity)
    return peaks


def _below_bound(scales: NDArray[np.float64], peaks: NDArray[np.float64], layer: FloatConv2d) -> NDArray[np.float64]:
    """Scales that keep free channels below the bound, and leave alone those that reach it."""
    high = layer.nonlinearity.high if layer.nonlinearity is not None else None
    if high is None or high <= 0.0:
        return np.ones_like(scales)
    return np.where(peaks <= high, np.maximum(scales, peaks / high), 1.0)


def _pairs(layers: FloatProgram, *, bounded: bool) -> tuple[list[tuple[FloatConv2d, FloatConv2d]], tuple[str, ...]]:
    uses = Counter(name for layer in layers.ops for name in layer.inputs)
    uses.update(layers.outputs)
    producers = {layer.output: layer for layer in layers.ops}
    pairs, declined = [], []
    for layer in layers.ops:
        first = producers.get(layer.inputs[0])
        while isinstance(first, FloatMaxPool | FloatAveragePool) and uses[first.inputs[0]] == 1:
            if uses[first.output] != 1:
                break
            first = producers.get(first.inputs[0])
        if not isinstance(layer, FloatConv2d) or not isinstance(first, FloatConv2d):
            continue
        reason = _obstacle(first, layer, uses, bounded=bounded)
        if reason:
            declined.append(f"{first.name} -> {layer.name}: {reason}")
        else:
            pairs.append((first, layer))
    return pairs, tuple(declined)


def _obstacle(first: FloatConv2d, second: FloatConv2d, uses: Counter[str], *, bounded: bool) -> str:
    if uses[first.output] != 1 or uses[second.inputs[0]] != 1:
        return "others read its output too"
    if second.pad_value != 0.0:
        return "the next layer is padded with another value than 0"
    activation = first.activation
    if activation is not None and activation.high is not None and not bounded:
        return "its activation has an upper bound, which would bind at other values"
    if activation is not None and activation.low not in (None, 0.0):
        return "its activation has a lower bound other than 0"
    return ""


def _by_input_channel(layer: FloatConv2d) -> FloatArray:
    """[O, I/g, kh, kw] -> [I, ...]: what each input channel is multiplied with (a copy)."""
    out, per_in = layer.weight.shape[:2]
    grouped = layer.weight.reshape(layer.groups, out // layer.groups, per_in, -1)
    return np.asarray(grouped.transpose(0, 2, 1, 3).reshape(layer.groups * per_in, -1))


def _scales(first: FloatConv2d, second: FloatConv2d) -> NDArray[np.float64]:
    before = np.abs(first.weight).reshape(first.weight.shape[0], -1).max(axis=1)
    behind = np.abs(_by_input_channel(second)).max(axis=1)
    # A channel all but dead on one side would be blown up until its bias swamps the others.
    usable = (before > _DEAD * before.max(initial=0.0)) & (behind > _DEAD * behind.max(initial=0.0))
    ratio = np.where(usable, before, 1.0) / np.where(usable, behind, 1.0)
    return np.asarray(np.clip(np.sqrt(ratio), 1.0 / _LARGEST_SCALE, _LARGEST_SCALE))


def _scaled(first: FloatConv2d, second: FloatConv2d, scales: NDArray[np.float64]) -> tuple[FloatConv2d, FloatConv2d]:
    out, per_in = second.weight.shape[:2]
    factors = np.repeat(scales.reshape(second.groups, per_in), out // second.groups, axis=0)  # [O, I/g]
    return (
        replace(first, weight=first.weight / scales[:, None, None, None], bias=first.bias / scales),
        replace(second, weight=second.weight * factors[:, :, None, None]),
    )
