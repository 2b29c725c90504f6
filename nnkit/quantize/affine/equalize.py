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

from nnkit.graph import Model
from nnkit.quantize.affine.build import split_pools
from nnkit.quantize.affine.float_run import activate, before_activation
from nnkit.quantize.layers import FloatArray, FloatLayer, FloatLayers
from nnkit.quantize.lowering import lower

_SWEEPS = 40
_SETTLED = 1e-3
_LARGEST_SCALE = 1e3  # of one step
_HEADROOM = 1.25  # on the largest values that were seen below a bound
_PART = 8  # samples that are run together
_DEAD = 1e-4  # of the widest channel: narrower ones are left as they are


@dataclass(frozen=True, eq=False)
class Equalized:
    """The equalised model (same values by name), the pairs of layers it scaled, and why others were left alone.

    values: names of the values whose channels were scaled, as a program of `split_pools` has them.
    """

    model: Model
    pairs: tuple[tuple[str, str], ...]
    declined: tuple[str, ...]
    values: tuple[str, ...] = ()


def equalize(model: Model, samples: Mapping[str, NDArray[np.float32]] | None = None) -> Equalized:
    """Equalise all pairs of convolutions of a restructured model.

    samples: [N, ...] in real units by input name; with them pairs below a bound are scaled too, where the bound does
        not bind on these samples (the float network is then the same for inputs like them, not for all).

    Raises ModelError as `lower`.
    """
    layers = lower(model)
    pairs, declined = _pairs(layers, bounded=samples is not None)
    peaks = {} if samples is None else _peaks(layers, {first.name for first, _ in pairs}, samples)
    changed = {layer.name: layer for layer in layers.layers if any(layer.name in (a.name, b.name) for a, b in pairs)}
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
    return Equalized(write_weights(model, changed, "equalized") if names else model, names, declined, values)


def _between(layers: FloatLayers, first: str, second: str) -> list[str]:
    """The values from one layer of a pair to the other."""
    producers = {layer.output: layer for layer in layers.layers}
    found = [next(layer for layer in layers.layers if layer.name == second).inputs[0]]
    while producers[found[-1]].name != first:
        found.append(producers[found[-1]].inputs[0])
    return found[::-1]


def _peaks(
    layers: FloatLayers, names: set[str], samples: Mapping[str, NDArray[np.float32]]
) -> dict[str, NDArray[np.float64]]:
    """By layer with a bound above: the largest value of each channel before the activation, with headroom."""
    found: dict[str, NDArray[np.float64]] = {}
    whole = split_pools(layers)
    count = len(next(iter(samples.values())))
    for start in range(0, count, _PART):
        values: dict[str, NDArray[Any]] = {name: samples[name][start : start + _PART] for name in layers.inputs}
        for layer in whole.layers:
            before = before_activation(layer, [values[name] for name in layer.inputs], whole.shapes[layer.output])
            if layer.name in names and layer.activation is not None and layer.activation.high is not None:
                peak = before.max(axis=(0, 2, 3)).astype(np.float64) * _HEADROOM
                found[layer.name] = np.maximum(found.get(layer.name, peak), peak)
            values[layer.output] = activate(before, layer.activation)
    return found


def _below_bound(scales: NDArray[np.float64], peaks: NDArray[np.float64], layer: FloatLayer) -> NDArray[np.float64]:
    """Scales that keep free channels below the bound, and leave alone those that reach it."""
    high = layer.activation.high if layer.activation is not None else None
    if high is None or high <= 0.0:
        return np.ones_like(scales)
    return np.where(peaks <= high, np.maximum(scales, peaks / high), 1.0)


def _pairs(layers: FloatLayers, *, bounded: bool) -> tuple[list[tuple[FloatLayer, FloatLayer]], tuple[str, ...]]:
    uses = Counter(name for layer in layers.layers for name in layer.inputs)
    uses.update(layers.outputs)
    producers = {layer.output: layer for layer in layers.layers}
    found, declined = [], []
    for layer in layers.layers:
        first = producers.get(layer.inputs[0])
        while first is not None and first.kind in ("max_pool", "average_pool") and uses[first.inputs[0]] == 1:
            if uses[first.output] != 1 or first.activation is not None:
                break
            first = producers.get(first.inputs[0])
        if layer.kind != "conv2d" or first is None or first.kind != "conv2d":
            continue
        reason = _obstacle(first, layer, uses, bounded=bounded)
        if reason:
            declined.append(f"{first.name} -> {layer.name}: {reason}")
        else:
            found.append((first, layer))
    return found, tuple(declined)


def _obstacle(first: FloatLayer, second: FloatLayer, uses: Counter[str], *, bounded: bool) -> str:
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


def _by_input_channel(layer: FloatLayer) -> FloatArray:
    """[O, I/g, kh, kw] -> [I, ...]: what each input channel is multiplied with (a copy)."""
    weight: FloatArray = _weight(layer)
    out, per_in = weight.shape[:2]
    grouped = weight.reshape(layer.groups, out // layer.groups, per_in, -1)
    return np.asarray(grouped.transpose(0, 2, 1, 3).reshape(layer.groups * per_in, -1))


def _scales(first: FloatLayer, second: FloatLayer) -> NDArray[np.float64]:
    before = np.abs(_weight(first)).reshape(_weight(first).shape[0], -1).max(axis=1)
    behind = np.abs(_by_input_channel(second)).max(axis=1)
    # A channel all but dead on one side would be blown up until its bias swamps the others.
    usable = (before > _DEAD * before.max(initial=0.0)) & (behind > _DEAD * behind.max(initial=0.0))
    ratio = np.where(usable, before, 1.0) / np.where(usable, behind, 1.0)
    return np.asarray(np.clip(np.sqrt(ratio), 1.0 / _LARGEST_SCALE, _LARGEST_SCALE))


def _scaled(first: FloatLayer, second: FloatLayer, scales: NDArray[np.float64]) -> tuple[FloatLayer, FloatLayer]:
    weight = _weight(second)
    out, per_in = weight.shape[:2]
    factors = np.repeat(scales.reshape(second.groups, per_in), out // second.groups, axis=0)  # [O, I/g]
    bias = None if first.bias is None else first.bias / scales
    return (
        replace(first, weight=_weight(first) / scales[:, None, None, None], bias=bias),
        replace(second, weight=weight * factors[:, :, None, None]),
    )


def _weight(layer: FloatLayer) -> FloatArray:
    return np.zeros((0, 0, 0, 0)) if layer.weight is None else layer.weight


def write_weights(model: Model, changed: Mapping[str, FloatLayer], suffix: str) -> Model:
    """The model with the weights and biases of these convolutions, by layer name.

    suffix: what the names of the new initializers say; no earlier ones of the model may have it.
    """
    from onnx import numpy_helper

    proto = model.proto()
    for node in proto.graph.node:
        layer = changed.get(node.name or node.output[0])
        if node.op_type != "Conv" or layer is None or layer.weight is None or layer.bias is None:
            continue
        names = [f"{node.output[0]}.{suffix}_{part}" for part in ("weight", "bias")]
        for name, values in zip(names, (layer.weight, layer.bias), strict=True):
            proto.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
        source = node.input[0]
        del node.input[:]
        node.input.extend([source, *names])
    used = {name for node in proto.graph.node for name in node.input}
    kept = [tensor for tensor in proto.graph.initializer if tensor.name in used]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    return replace(model, onnx_bytes=proto.SerializeToString())
