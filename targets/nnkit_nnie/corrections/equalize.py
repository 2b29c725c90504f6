"""Equalisation across layers for GFPQ: channels scaled where a layer writes them, and back where others read.

For s > 0 and an activation with f(s x) = s f(x) (none, ReLU, leaky ReLU, PReLU; pools too), rows W1 * s and b1 * s
before and columns W2 / s behind leave the float network's outputs as they are. GFPQ is a logarithm: within its
octaves a scale costs nothing and gains nothing but

* range: a channel whose largest value lies far below its tensor's is read with few of the octaves, and becomes zero
  below the last. It is widened, in whole steps of the logarithm, as far as that narrows no column behind it as much,
  and no further than to the widest channel. A depthwise layer has a scale for each channel and sets no limit;
* phase: s = 2^(d / F) with d below one step shifts a row's codes against its weights. The largest weight of a group
  may lie up to a step above the largest code, because its scale z is rounded down: in a depthwise layer that takes up
  to 4 % off the largest weight of every channel. Rows of few weights take the d of least squared error of the row.

Source of the pairs: Nagel et al., "Data-free quantization through weight equalization and bias correction", 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model
from nnkit_nnie.corrections.weights_edit import WeightsEdit
from nnkit_nnie.gfpq.number_format import SMALLEST_MAGNITUDE, Gfpq, GfpqBits
from nnkit_nnie.gfpq.quantize import Precision
from nnkit_nnie.layers import REPORT_SUFFIX, Layer
from nnkit_nnie.network import Network

EQUALIZED = ".equalized"
"""What the names of scaled values end in: they are not those of the float network any more."""

_CONVOLUTIONS = ("Convolution", "DepthwiseConv")
_HOMOGENEOUS = ("Relu", "LeakyRelu", "PRelu")
_FEW_WEIGHTS = 64  # of a row, up to which its phase is chosen: over more, the errors of any phase are alike
_PHASES = 32  # tried in a step
_NARROW_OCTAVES = 2.0  # below the widest: channels nearer to it are left alone
_LOW_BITS: GfpqBits = 8
_DEAD = 1e-5  # of the widest channel

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pair:
    """A convolution and those that alone read its channels. values: from the first one's sums to what they read."""

    first: Layer
    readers: tuple[Layer, ...]
    values: tuple[str, ...]


def pairs_of(network: Network) -> tuple[Pair, ...]:
    """The pairs of a network, in its order."""
    given = {*network.graph.outputs, *(name for part in network.segments for name in part.outputs)}
    pairs = []
    for layer in network.layers:
        pair = _pair(network, layer, given)
        if pair is not None:
            pairs.append(pair)
    return tuple(pairs)


def equalize(
    network: Network, edit: WeightsEdit, precision: Precision, largest: Mapping[str, Array]
) -> dict[str, Array]:
    """Scale the channels of all pairs in `edit`, a copy of the model that `network` was made of.

    largest: the largest magnitude of each channel [C] of every value that the readers of a pair read.

    Returns the factor of each channel by the name that the scaled values had; they end in `EQUALIZED` in the edit.
    """
    factors: dict[str, Array] = {}
    for pair in pairs_of(network):
        name, readers = pair.first.main.output, [reader.main for reader in pair.readers]
        biased = edit.has(name, 2)
        if not all(edit.owns(node, 1) for node in (name, *(each.output for each in readers))):
            continue
        if biased and not edit.owns(name, 2):
            continue
        own, groups = edit.constant(name, 1), pair.first.main.integer("group", 1)
        columns = [(edit.constant(node.output, 1), node.integer("group", 1)) for node in readers]
        bits = precision.bits(pair.first)
        scale = _range_factors(own, groups, columns, largest[pair.values[-1]], Gfpq(bits, 0).steps_per_octave)
        if bits == _LOW_BITS:
            scale = scale * phase_factors(own * scale.reshape(-1, 1, 1, 1), groups, bits)
        if np.all(scale == 1.0):
            continue
        edit.set_constant(name, 1, own * scale.reshape(-1, 1, 1, 1))
        if biased:
            edit.set_constant(name, 2, edit.constant(name, 2) * scale)
        for node, (weight, reading) in zip(readers, columns, strict=True):
            edit.set_constant(node.output, 1, weight / _by_input(scale, weight, reading))
        factors |= dict.fromkeys(pair.values, scale)
    edit.rename({name: name + EQUALIZED for name in factors})
    return factors


def _pair(network: Network, layer: Layer, given: set[str]) -> Pair | None:
    """The pair that begins with a layer; None where its channels cannot be scaled."""
    graph = network.graph
    followers = layer.nodes[layer.nodes.index(layer.main) + 1 :]
    if not _is_convolution(layer) or not all(node.is_op(*_HOMOGENEOUS) for node in followers):
        return None
    values = [layer.main.output, *(node.output for node in followers)]
    producers = {name: each for each in network.layers for name in each.outputs}
    while True:
        if values[-1] in given or any(name.endswith(REPORT_SUFFIX) for name in values):
            return None
        readers = _readers(network, values[-1])
        if len(readers) == 1 and _keeps_scales(readers[0]) and len(readers[0].outputs) == 1:
            values += [name for node in readers[0].nodes for name in node.results]
            continue
        break
    if not readers or not all(_is_convolution(each) and each.inputs == (values[-1],) for each in readers):
        return None
    inner = [name for name in values[:-1] if len(graph.consumers.get(name, ())) != 1]
    if inner or any(name in given for name in values) or producers.get(values[-1]) is None:
        return None
    return Pair(layer, tuple(readers), tuple(values))


def _readers(network: Network, value: str) -> list[Layer]:
    return [layer for layer in network.layers if value in layer.inputs]


def _is_convolution(layer: Layer) -> bool:
    return layer.placement == "npu" and layer.kind in _CONVOLUTIONS and layer.nodes[0] is layer.main


def _keeps_scales(layer: Layer) -> bool:
    """Whether a layer gives s f(x) for s x: a pool, or an activation that is a layer of its own."""
    if layer.placement != "npu":
        return False
    kinds = all(node.is_op(*_HOMOGENEOUS) or node.op_type.endswith("Pool") for node in layer.nodes)
    return kinds and len(layer.inputs) == 1


def _range_factors(
    own: Array, groups: int, columns: Sequence[tuple[Array, int]], largest: Array, steps: int
) -> Array:
    """[C]: by how much each channel is widened, a whole number of steps; 1 where it is wide enough, or dead."""
    widths = [largest]
    if groups == 1:
        widths.append(_row_widths(own))
    below = np.min([_octaves(width) for width in widths], axis=0)
    room = -np.max([_octaves(width) for width in widths], axis=0)
    dense = [np.abs(_by_channel(weight, reading)).max(axis=1) for weight, reading in columns if reading == 1]
    behind = np.min([_octaves(width) for width in dense], axis=0) if dense else np.zeros_like(below)
    wanted = (behind - below) / 2.0 if dense else -below
    octaves = np.where(below < -_NARROW_OCTAVES, np.clip(wanted, 0.0, np.maximum(room, 0.0)), 0.0)
    alive = np.min([width / max(float(width.max()), SMALLEST_MAGNITUDE) for width in widths], axis=0) > _DEAD
    return np.asarray(2.0 ** (np.where(alive, np.floor(octaves * steps), 0.0) / steps))


def _octaves(widths: Array) -> Array:
    """log2 relative to the widest; 0 where there is none."""
    widest = max(float(widths.max(initial=0.0)), SMALLEST_MAGNITUDE)
    return np.asarray(np.log2(np.maximum(widths, widest * _DEAD) / widest))


def _row_widths(weight: Array) -> Array:
    return np.asarray(np.abs(weight).reshape(weight.shape[0], -1).max(axis=1))


def _by_channel(weight: Array, groups: int) -> Array:
    """[O, I / g, kh, kw] -> [I, ...]: the weights that each input channel is multiplied with."""
    out, per_in = weight.shape[:2]
    grouped = weight.reshape(groups, out // groups, per_in, -1)
    return np.asarray(grouped.transpose(0, 2, 1, 3).reshape(groups * per_in, -1))


def _by_input(scale: Array, weight: Array, groups: int) -> Array:
    """Factors of the input channels [I] in the shape of the weights that read them."""
    out, per_in = weight.shape[:2]
    return np.repeat(scale.reshape(groups, per_in), out // groups, axis=0)[:, :, None, None]


def phase_factors(weight: Array, groups: int, bits: GfpqBits) -> Array:
    """[O], from 1 to below 2^(1 / F): of rows with few weights the shift of least squared error; 1 for others.

    A row of a layer with one scale does not become wider than the layer is, which would move the scale of all.
    """
    form = Gfpq(bits, 0)
    steps, top = form.steps_per_octave, form.largest_code
    rows = weight.reshape(weight.shape[0], -1)
    if rows.shape[1] > _FEW_WEIGHTS:
        return np.ones(len(rows))
    logs = steps * np.log2(np.maximum(np.abs(rows), SMALLEST_MAGNITUDE**2))  # [O, n]
    widest = logs.max(axis=1).reshape(groups, -1).max(axis=1)  # [G]
    of_row = np.repeat(widest, len(rows) // groups)
    single = len(rows) == groups
    best, chosen = np.full(len(rows), np.inf), np.zeros(len(rows))
    for phase in np.arange(_PHASES) / _PHASES:
        shifted = logs + phase
        z = np.floor(of_row + (phase if single else 0.0)) - top
        codes = np.clip(np.rint(shifted - z[:, None]), 0, top)
        back = np.where(shifted < z[:, None] - steps, 0.0, 2.0 ** ((codes + z[:, None] - phase) / steps))
        error = np.square(back - np.abs(rows)).sum(axis=1)
        allowed = single | (shifted.max(axis=1) <= np.maximum(of_row, logs.max(axis=1)))
        better = allowed & (error < best * (1.0 - 1e-9))
        best, chosen = np.where(better, error, best), np.where(better, phase, chosen)
    dead = np.abs(rows).max(axis=1) <= SMALLEST_MAGNITUDE
    return np.asarray(np.where(dead, 1.0, 2.0 ** (chosen / steps)))


def channel_peaks(
    model: Model, values: Sequence[str], samples: Sequence[Mapping[str, NDArray[np.float32]]]
) -> dict[str, Array]:
    """By value, the largest magnitude of each channel [C] over samples, each the network's inputs; in float."""
    from nnkit.graph.onnx_runtime import FloatSession

    session = FloatSession(model, fetch=list(values))
    peaks: dict[str, Array] = {}
    for inputs in samples:
        for name, value in session.run(inputs).items():
            peak = np.abs(value).max(axis=(0, *range(2, value.ndim))).astype(np.float64)
            peaks[name] = np.maximum(peaks.get(name, peak), peak)
    return peaks
