"""Cross-layer equalisation: scale a channel down where it leaves one convolution and up where the next one reads it.

For s > 0 and an activation with f(s x) = s f(x) (none, Relu, LeakyRelu, PRelu; pools too), W1 / s and b1 / s before
and W2 * s behind leave the float network's outputs as they are. s_c = sqrt(r1_c / r2_c), r the largest weight of
channel c on either side, makes both sides equally wide, so that one scale suits all channels. A depthwise layer
stands on both sides, one after the other. A bound above (Relu6) is the same for all channels, so a channel cannot be
scaled under it: such pairs are left alone, and the reason is given.
Source: Nagel et al., "Data-free quantization through weight equalization and bias correction", 2019.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model
from nnkit.quantize.layers import FloatArray, FloatLayer, FloatLayers
from nnkit.quantize.lowering import lower

_SWEEPS = 40
_SETTLED = 1e-3
_LARGEST_SCALE = 1e3  # of one step
_DEAD = 1e-4  # of the widest channel: narrower ones are left as they are


@dataclass(frozen=True, eq=False)
class Equalized:
    """The equalised model (same values by name), the pairs of layers it scaled, and why others were left alone."""

    model: Model
    pairs: tuple[tuple[str, str], ...]
    declined: tuple[str, ...]


def equalize(model: Model) -> Equalized:
    """Equalise all pairs of convolutions of a restructured model. Raises ModelError as `lower`."""
    layers = lower(model)
    pairs, declined = _pairs(layers)
    changed = {layer.name: layer for layer in layers.layers if any(layer.name in (a.name, b.name) for a, b in pairs)}
    names = tuple((a.name, b.name) for a, b in pairs)
    for _ in range(_SWEEPS):
        furthest = 0.0
        for first, second in names:
            scales = _scales(changed[first], changed[second])
            furthest = max(furthest, float(np.abs(np.log(scales)).max(initial=0.0)))
            changed[first], changed[second] = _scaled(changed[first], changed[second], scales)
        if furthest < _SETTLED:
            break
    return Equalized(_written(model, changed) if names else model, names, declined)


def _pairs(layers: FloatLayers) -> tuple[list[tuple[FloatLayer, FloatLayer]], tuple[str, ...]]:
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
        reason = _obstacle(first, layer, uses)
        if reason:
            declined.append(f"{first.name} -> {layer.name}: {reason}")
        else:
            found.append((first, layer))
    return found, tuple(declined)


def _obstacle(first: FloatLayer, second: FloatLayer, uses: Counter[str]) -> str:
    if uses[first.output] != 1 or uses[second.inputs[0]] != 1:
        return "others read its output too"
    if second.pad_value != 0.0:
        return "the next layer is padded with another value than 0"
    activation = first.activation
    if activation is not None and activation.high is not None:
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


def _written(model: Model, changed: dict[str, FloatLayer]) -> Model:
    from onnx import numpy_helper

    proto = model.proto()
    for node in proto.graph.node:
        layer = changed.get(node.name or node.output[0])
        if node.op_type != "Conv" or layer is None or layer.weight is None or layer.bias is None:
            continue
        names = [f"{node.output[0]}.equalized_{part}" for part in ("weight", "bias")]
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
