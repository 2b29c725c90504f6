"""What rounding half up adds to a sum on average, taken off a bias before it.

An addition aligns its operands, adds them and shifts the sum right by few bits k. The bits that go are evenly spread
over 2^k values, one of which is a tie that rounds up: the result is too large by 2^-(k+1) units on average. For k = 1
that is a quarter of a unit in every value of every residual stream, and such errors add up coherently from block to
block where others cancel. A convolution's bias has the accumulator's resolution, so it can take the amount off
exactly. (A convolution's own shift is so long that its ties do not matter.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from nnkit.program import Fixed
from nnkit.quantize.layers import FloatLayer, FloatLayers

_LONGEST_SHIFT = 8  # beyond it the share of ties is below 1/256


def without_rounding_bias(layers: FloatLayers, formats: Mapping[str, Fixed]) -> FloatLayers:
    """The layers with the mean rounding error of additions taken off the biases of convolutions that feed them.

    Only a convolution without activation and pool, whose output nothing else reads, can carry it.

    formats: of every value that an addition reads or writes.
    """
    readers = Counter(name for layer in layers.layers for name in layer.inputs)
    readers.update(layers.outputs)
    producers = {layer.output: layer for layer in layers.layers}
    changed: dict[str, FloatLayer] = {}
    for layer in layers.layers:
        if layer.kind != "add":
            continue
        finest = max(formats[name].frac for name in layer.inputs)
        shift = finest - formats[layer.output].frac
        carriers = [producers[name] for name in layer.inputs if name in producers and readers[name] == 1]
        carrier = next((found for found in carriers if _can_carry(found)), None)
        if carrier is None or carrier.bias is None or not 1 <= shift <= _LONGEST_SHIFT:
            continue
        mean_error = 2.0 ** -(finest + 1)  # 2^-(shift + 1) of the output's unit, in real units
        changed[carrier.name] = replace(carrier, bias=carrier.bias - mean_error)
    return replace(layers, layers=tuple(changed.get(layer.name, layer) for layer in layers.layers))


def _can_carry(layer: FloatLayer) -> bool:
    return layer.kind in ("conv2d", "conv_transpose2d") and layer.activation is None and layer.pool is None
