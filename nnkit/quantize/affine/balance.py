"""Balancing: channels are scaled so that all of them use the range of their tensor.

An 8-bit tensor has one step for all channels, that of the widest; a channel of a tenth of that width is stored with a
tenth of the levels. With scales for weights per channel, width can be moved from activations to weights, which have
more to spare: channel c of a value is divided by s_c where it is written and multiplied where it is read
(`channel_classes`). The float network computes the same.

With widths w_c, step d = max_c(w_c / s_c) / 255 and reading weights W, a reader's output channel o gets the noise

    d^2/12 sum_c s_c^2 |W_oc|^2  +  (max_c |W_oc| s_c / 127)^2 / 12 * sum_c K E[x_c^2] / s_c^2

from rounding the value and from rounding the weights (K taps of the kernel; roundings even and independent). The
scales are s_c = (w_c / max w)^a; a from 0 to 1 is chosen for each group of values that are tied together where the
noise of all readers, relative to their signals, is least. A depthwise reader has a scale for every channel, so that
its second term does not depend on s, and a becomes 1. A share of a is then taken (`_SHARE`): the widths are
estimates, and what is not seen in calibration clips sooner in a channel that fills its range.

Behind an upper bound (Relu6) a channel is scaled as far as it then stays below the bound, with headroom; one that
reaches it is not. There the balanced network computes the same for inputs like the samples, not for all.

w_c is the largest number that was seen, or where that is more, the mean of the images' largest numbers and four of
their standard deviations: channels that are rarely active shall not be blown up.

The idea of moving width into weights is that of Nagel et al., "Data-free quantization through weight equalization and
bias correction", 2019 (by weights alone: `equalize`), and Xiao et al., "SmoothQuant", 2022 (by activations).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nnkit.quantize.affine.build import split_pools
from nnkit.quantize.affine.channel_classes import ChannelClasses, channel_classes
from nnkit.quantize.affine.float_run import all_values
from nnkit.quantize.affine.scheme import AffineScheme
from nnkit.quantize.float_program import FloatConv2d, FloatProgram
from nnkit.quantize.lowered import LoweredLayers

HEADROOM = 1.05
"""On the 8-bit ranges of a balanced network (`AffineScheme.eight_bit_headroom`): all channels reach their ends, so
that there are more values that calibration did not see."""

_DEVIATIONS = 4.0
_EXPONENTS = np.linspace(0.0, 1.0, 11)
_SHARE = 0.75
_BOUND_HEADROOM = 1.25  # on widths that have to stay below a bound
_SILENT = 1e-4  # of the widest channel
_NARROWEST = 1e-2  # of the widest channel: narrower ones are scaled as if they were that wide

Array = NDArray[np.float64]


@dataclass(frozen=True)
class BalancedGroup:
    """Values that were scaled together. exponent: of the widths; gain_db: what the predicted noise at its readers
    loses against no scaling, before the share is taken."""

    values: tuple[str, ...]
    exponent: float
    gain_db: float


@dataclass(frozen=True, eq=False)
class Balanced:
    """The balanced network (same values by name), its groups, and why values were left alone.

    values: names of the values whose channels were scaled, as a program of `split_pools` has them.
    """

    network: LoweredLayers
    groups: tuple[BalancedGroup, ...]
    declined: tuple[str, ...]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ChannelWidths:
    """How far the channels [C] of a value reach to either side of 0, and their mean square."""

    below: Array
    above: Array
    power: Array

    @property
    def width(self) -> Array:
        """The larger side."""
        return np.maximum(self.below, self.above)


def balance(
    network: LoweredLayers, samples: Mapping[str, NDArray[np.float32]], scheme: AffineScheme | None = None
) -> Balanced:
    """Balance the channels of a network.

    samples: [N, ...] in real units by input name. scheme: tells bits and symmetry (None: the default one).

    Returns the network as it is where its weights have one scale per tensor, which balancing would widen.
    """
    scheme = AffineScheme() if scheme is None else scheme
    if not scheme.per_channel:
        return Balanced(network, (), ("weights with one scale per tensor have no room for what activations lose",))
    layers = split_pools(network.layers)
    classes = channel_classes(layers)
    widths = channel_widths(layers, samples)
    logs, least = _relative_logs(classes, widths), _least_scales(classes, widths)
    scales: Array = np.ones(len(classes.free))
    groups = []
    for values in classes.groups():
        concerned = np.unique(np.concatenate([classes.labels[value] for value in values]))
        concerned = concerned[classes.free[concerned]]
        trial, noises = scales.copy(), []
        for exponent in _EXPONENTS:
            trial[concerned] = np.maximum(np.exp(exponent * logs[concerned]), least[concerned])
            noises.append(predicted_noise(layers, values, classes.labels, trial, widths, scheme))
        best = int(np.argmin(noises))
        if noises[best] < noises[0]:
            chosen = np.exp(_SHARE * _EXPONENTS[best] * logs[concerned])
            scales[concerned] = np.maximum(chosen, least[concerned])
            gain = 10.0 * float(np.log10(noises[0] / noises[best]))
            groups.append(BalancedGroup(values, _SHARE * float(_EXPONENTS[best]), gain))
    convolutions = (layer for layer in network.layers.ops if isinstance(layer, FloatConv2d))
    changed = {layer.name: _scaled(layer, classes, scales) for layer in convolutions}
    values = tuple(name for name, labels in classes.labels.items() if np.any(scales[labels] != 1.0))
    balanced = network.with_convolutions(changed, "balanced") if values else network
    return Balanced(balanced, tuple(groups), classes.declined, values)


def channel_widths(layers: FloatProgram, samples: Mapping[str, NDArray[np.float32]]) -> dict[str, ChannelWidths]:
    """The widths of all values of the layers by name, on samples [N, ...]."""
    sides: dict[str, Array] = {}  # [4, 2, C]: sum, sum of squares and maximum of the images' extremes; mean square
    count = len(next(iter(samples.values())))
    for part in all_values(layers, samples):
        for name, values in part.items():
            flat = values.reshape(*values.shape[:2], -1)  # [N, C, HW]
            ends = np.stack([np.maximum(-flat.min(axis=2), 0.0), np.maximum(flat.max(axis=2), 0.0)])  # [2, N, C]
            ends = ends.astype(np.float64)
            power = np.square(flat, dtype=np.float64).mean(axis=2).sum(axis=0)
            rows = np.stack([ends.sum(axis=1), np.square(ends).sum(axis=1), ends.max(axis=1), np.stack([power] * 2)])
            if name in sides:
                before = sides[name]
                rows = np.stack([*(before[:2] + rows[:2]), np.maximum(before[2], rows[2]), before[3] + rows[3]])
            sides[name] = rows
    widths = {}
    for name, (total, squares, largest, power) in sides.items():
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - np.square(mean), 0.0))
        below, above = np.maximum(largest, mean + _DEVIATIONS * deviation)
        widths[name] = ChannelWidths(below, above, power[0] / count)
    return widths


def predicted_noise(
    layers: FloatProgram,
    values: tuple[str, ...],
    labels: Mapping[str, NDArray[np.int64]],
    scales: Array,
    widths: Mapping[str, ChannelWidths],
    scheme: AffineScheme,
) -> float:
    """Noise power at the outputs of all readers of `values`, each relative to its signal's; see the module.

    labels, scales: the class of each channel, by value, and the scale of each class.
    """
    total = 0.0
    for layer in layers.ops:
        for name in layer.inputs:
            if name not in values:
                continue
            of, scale = widths[name], scales[labels[name]]
            step_noise = np.square(_step(of, scale, scheme)) / 12.0
            if isinstance(layer, FloatConv2d):
                total += _conv_noise(layer, of, scale, float(step_noise), scheme)
            else:
                signal = float(of.power.sum())
                total += float(step_noise * np.square(scale).sum()) / signal if signal > 0.0 else 0.0
    return total


def _step(of: ChannelWidths, scale: Array, scheme: AffineScheme) -> float:
    below, above = float((of.below / scale).max()), float((of.above / scale).max())
    reach = 2.0 * max(below, above) if scheme.symmetric_activations else below + above
    return reach / ((1 << scheme.activation_bits) - 1)


def _conv_noise(
    layer: FloatConv2d, of: ChannelWidths, scale: Array, step_noise: float, scheme: AffineScheme
) -> float:
    out, per_in, *kernel = layer.weight.shape
    groups = layer.groups
    weight = layer.weight.reshape(groups, out // groups, per_in, -1)  # [g, O/g, I/g, K]
    factors = scale.reshape(groups, 1, per_in, 1)
    power = of.power.reshape(groups, 1, per_in)
    scaled = weight * factors
    largest = np.abs(scaled).max(axis=(2, 3))  # [g, O/g]
    rounding = np.square(largest / ((1 << (scheme.weight_bits - 1)) - 1)) / 12.0
    taps = int(np.prod(kernel))
    of_weights = rounding * taps * (power / np.square(factors[..., 0])).sum(axis=2)
    of_values = step_noise * np.square(scaled).sum(axis=(2, 3))
    signal = float((np.square(weight).sum(axis=3) * power).sum())
    return float((of_values + of_weights).sum()) / signal if signal > 0.0 else 0.0


def _relative_logs(classes: ChannelClasses, widths: Mapping[str, ChannelWidths]) -> Array:
    """By class: logarithm of the width relative to the widest channel, of the value where that is largest.

    Nothing is known of channels that are silent on all samples: they count as wide as the median of the others.
    """
    relative: Array = np.zeros(len(classes.free))
    for name, labels in classes.labels.items():
        width = widths[name].width
        widest = float(width.max())
        if widest > 0.0:
            np.maximum.at(relative, labels, width / widest)
    logs = np.log(np.maximum(relative, _NARROWEST))
    for values in classes.groups():
        concerned = np.unique(np.concatenate([classes.labels[value] for value in values]))
        seen = relative[concerned] > _SILENT
        if seen.any():
            logs[concerned[~seen]] = np.median(logs[concerned[seen]])
    return np.asarray(logs)


def _least_scales(classes: ChannelClasses, widths: Mapping[str, ChannelWidths]) -> Array:
    """By class: the least scale with which its channels stay below their bounds; 1 where one may reach it."""
    least: Array = np.zeros(len(classes.free))
    for name, bound in classes.bounds.items():
        np.maximum.at(least, classes.labels[name], _BOUND_HEADROOM * widths[name].above / bound)
    return np.minimum(least, 1.0)


def _scaled(layer: FloatConv2d, classes: ChannelClasses, scales: Array) -> FloatConv2d:
    """A convolution that reads channels divided by their scales, and writes them so."""
    out, per_in = layer.weight.shape[:2]
    read, written = scales[classes.labels[layer.inputs[0]]], scales[classes.labels[layer.output]]
    factors = np.repeat(read.reshape(layer.groups, per_in), out // layer.groups, axis=0) / written[:, None]
    return replace(layer, weight=layer.weight * factors[:, :, None, None], bias=layer.bias / written)
