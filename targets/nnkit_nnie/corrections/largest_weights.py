"""The largest weight of a group, raised to the next code where that is nearer than the one below.

The scale of a group is rounded down to a whole step of the logarithm, so that its largest weight lies up to a step,
4 % with 8 bits, above the largest code, and is cut to it. In a depthwise layer that is the largest weight of every
channel. The mapper takes the scale from the weights that it reads: with the largest of them at the next code, or a
little above, its scale is a step higher, and that code is there. All other codes stand for the same values as before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit_nnie.corrections.weights_edit import WeightsEdit
from nnkit_nnie.gfpq.number_format import SMALLEST_MAGNITUDE, Gfpq, GfpqBits
from nnkit_nnie.gfpq.quantize import Precision
from nnkit_nnie.network import Network

_CONVOLUTIONS = ("Convolution", "DepthwiseConv", "Deconvolution")
_LOW_BITS: GfpqBits = 8
_ABOVE = 0.25  # of a step, by which the raised weight lies above its code: far from where the scale would change

Array = NDArray[np.float64]


def raise_largest_weights(network: Network, edit: WeightsEdit, precision: Precision) -> int:
    """Change the weights in `edit`, a copy of the model that `network` was made of; returns of how many layers.

    Layers of 16 bits stay as they are, as do those whose weights are not in the model for them alone.
    """
    changed = 0
    for layer in network.layers:
        if layer.placement != "npu" or layer.kind not in _CONVOLUTIONS or precision.bits(layer) != _LOW_BITS:
            continue
        name = layer.main.output
        if not edit.owns(name, 1):
            continue
        weight = edit.constant(name, 1)
        raised = with_largest_raised(weight, layer.main.integer("group", 1))
        if not np.array_equal(raised, weight):
            edit.set_constant(name, 1, raised)
            changed += 1
    return changed


def with_largest_raised(weight: Array, groups: int) -> Array:
    """The weights of a layer, whose groups divide the first axis, with the largest of each group raised where that
    errs less in squares."""
    result = weight.reshape(groups, -1).copy()
    for row in result:
        largest = float(np.abs(row).max())
        if largest <= SMALLEST_MAGNITUDE:
            continue
        below = Gfpq.for_magnitude(_LOW_BITS, largest)
        above = Gfpq(_LOW_BITS, below.z + 1)
        raised = row.copy()
        at = int(np.abs(row).argmax())
        raised[at] = np.sign(row[at]) * 2.0 ** ((above.largest_code + above.z + _ABOVE) / above.steps_per_octave)
        errors = [
            float(np.square(scale.dequantize(scale.quantize(values)) - row).sum())
            for scale, values in ((below, row), (above, raised))
        ]
        if errors[1] < errors[0]:
            row[:] = raised
    return result.reshape(weight.shape)
