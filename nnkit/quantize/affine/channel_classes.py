"""Which channels of which values can be scaled, and which only together.

Dividing a channel of a value by s > 0 leaves the network as it is where all that writes it is divided by s and all
that reads it is multiplied: a convolution takes either into its weights, whatever else moves or adds channels passes
the scale on. So the channels of all values fall into classes that share one scale; a class with a member whose scale
is given (the network's inputs and outputs, what a product reads) is not free. An upper bound (Relu6) is one number
for all channels: `bounds` has it, and a scale has to keep its channel below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.quantize.float_program import (
    FloatActivation,
    FloatAdd,
    FloatAveragePool,
    FloatConcat,
    FloatConv2d,
    FloatConvTranspose2d,
    FloatEmbedding,
    FloatFunction,
    FloatLogSoftmax,
    FloatMaxPool,
    FloatMul,
    FloatOnnx,
    FloatOp,
    FloatPad,
    FloatProgram,
    FloatReshape,
    FloatSign,
    FloatSlice,
    FloatSoftmax,
    FloatTranspose,
    FloatUpsample,
    Nonlinearity,
)

_PASSES_ON = (FloatMaxPool, FloatAveragePool, FloatActivation, FloatUpsample, FloatPad)
_KEEP_SCALES: Mapping[type[FloatOp], str] = {
    FloatMul: "a product",
    FloatFunction: "a function by table",
    FloatSign: "a function by table",
    FloatSoftmax: "a softmax",
    FloatLogSoftmax: "the logarithm of a softmax",
    FloatOnnx: "an operator in float",
    FloatEmbedding: "a table of rows",
    FloatReshape: "a change of shape",
    FloatTranspose: "axes in another order",
    FloatSlice: "a part of a value",
    FloatConvTranspose2d: "a transposed convolution",
}


@dataclass(frozen=True, eq=False)
class ChannelClasses:
    """The classes of the channels of a network's values.

    labels: by value, the class of each channel [C]. free: by class, whether it can be scaled.
    bounds: by value whose activation has an upper bound, that bound.
    declined: why values are not free, one sentence each.
    """

    labels: Mapping[str, NDArray[np.int64]]
    free: NDArray[np.bool_]
    bounds: Mapping[str, float]
    declined: tuple[str, ...]

    def groups(self) -> list[tuple[str, ...]]:
        """Values that share free classes, in execution order: what one decision about scales concerns."""
        first: dict[int, str] = {}
        union = _Union(len(self.labels))
        place = {name: index for index, name in enumerate(self.labels)}
        concerned = []
        for name, labels in self.labels.items():
            free = [int(label) for label in np.unique(labels) if self.free[label]]
            if free:
                concerned.append(name)
            for label in free:
                union.join(place[first.setdefault(label, name)], place[name])
        groups: dict[int, list[str]] = {}
        for name in concerned:
            groups.setdefault(union.root(place[name]), []).append(name)
        return [tuple(names) for names in groups.values()]


def channel_classes(layers: FloatProgram) -> ChannelClasses:
    """The classes of all values of `split_pools` layers."""
    values = [*layers.inputs, *(layer.output for layer in layers.ops)]
    starts = np.cumsum([0, *(layers.shapes[value][0] for value in values)])
    channels = {value: np.arange(starts[i], starts[i + 1]) for i, value in enumerate(values)}
    union = _Union(int(starts[-1]))
    given: dict[str, str] = dict.fromkeys(layers.outputs, "an output of the network")
    given |= dict.fromkeys(layers.inputs, "an input of the network")
    for layer in layers.ops:
        given |= {name: f"{layer.name}: {reason}" for name, reason in _obstacles(layer, layers)}
        for one, other in _pairs(layer, layers, channels):
            for a, b in zip(one.tolist(), other.tolist(), strict=True):
                union.join(a, b)
    roots = np.array([union.root(index) for index in range(int(starts[-1]))])
    kinds, labels = np.unique(roots, return_inverse=True)
    free = np.ones(len(kinds), np.bool_)
    for name in given:
        free[labels[channels[name]]] = False
    ends = {*layers.inputs, *layers.outputs}
    declined = tuple(f"{name}: {reason}" for name, reason in given.items() if name not in ends)
    bounds = {
        layer.output: layer.nonlinearity.high
        for layer in layers.ops
        if layer.nonlinearity is not None and layer.nonlinearity.high is not None
    }
    return ChannelClasses({value: labels[channels[value]] for value in values}, free, bounds, declined)


def _homogeneous(activation: Nonlinearity | None) -> bool:
    """Whether f(s x) = s f(x) for s > 0, below an upper bound: none, Relu, LeakyRelu, PRelu, Relu6."""
    return activation is None or (
        activation.low in (None, 0.0) and (activation.high is None or activation.high > 0.0)
    )


def _obstacles(layer: FloatOp, layers: FloatProgram) -> Iterable[tuple[str, str]]:
    """Values of a layer whose scale is given, and why."""
    if not _homogeneous(layer.nonlinearity):
        yield layer.output, "its activation has a lower bound other than 0"
    if isinstance(layer, FloatConv2d):
        if layer.stored is not None:
            for name in (*layer.inputs, layer.output):
                yield name, "its weights came as integers"
        if layer.pad_value != 0.0:
            yield layer.inputs[0], "it is padded with another value than 0"
    elif isinstance(layer, FloatPad) and layer.value != 0.0:
        yield layer.output, "it pads with another value than 0"
    elif isinstance(layer, FloatAdd) and len({layers.shapes[name] for name in layer.inputs}) > 1:
        for name in (*layer.inputs, layer.output):
            yield name, "it adds values of different shapes"
    elif type(layer) in _KEEP_SCALES:
        for name in (*layer.inputs, layer.output):
            yield name, _KEEP_SCALES[type(layer)]


def _pairs(
    layer: FloatOp, layers: FloatProgram, channels: Mapping[str, NDArray[np.int64]]
) -> Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Channels that a layer ties together, in two arrays of the same length."""
    output = channels[layer.output]
    if isinstance(layer, _PASSES_ON):
        yield channels[layer.inputs[0]], output
    elif isinstance(layer, FloatAdd):
        for name in layer.inputs:
            if layers.shapes[name] == layers.shapes[layer.output]:
                yield channels[name], output
    elif isinstance(layer, FloatConcat):
        start = 0
        for name in layer.inputs:
            yield channels[name], output[start : start + len(channels[name])]
            start += len(channels[name])


class _Union:
    """Disjoint sets of 0..n-1."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def root(self, index: int) -> int:
        while self._parent[index] != index:
            self._parent[index] = self._parent[self._parent[index]]
            index = self._parent[index]
        return index

    def join(self, one: int, other: int) -> None:
        self._parent[self.root(other)] = self.root(one)
