"""The clip rate of a layer: how many of its values lie beyond what its tensor can hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Tensor
from nnkit.program.formats import Affine, Fixed


def can_clip(tensor: Tensor) -> bool:
    """Whether the tensor stores integers in one format for all its values."""
    form = tensor.format
    return tensor.high > tensor.low and (isinstance(form, Fixed) or (isinstance(form, Affine) and form.axis is None))


class ClipSum:
    """Counts the float network's values that a tensor of integers cannot hold, over several inputs.

    What counts lies more than half a unit beyond the smallest or the largest value that the tensor can hold: it loses
    more than rounding takes. What the float network's own activation cuts off is no clipping, and a 1 is none where
    the range is that of shares, 0 to 1, and ends one unit below it.
    """

    def __init__(self, tensor: Tensor) -> None:
        """tensor: one that `can_clip`."""
        ends = np.asarray([tensor.low, tensor.low + 1, tensor.high], dtype=np.int64)
        low, next_to_low, high = (float(end) for end in tensor.format.dequantize(ends))
        half = (next_to_low - low) / 2
        ends_below_one = high + 2 * half == 1.0
        self._low, self._high = low - half, 1.0 if ends_below_one else high + half
        self._values = self._clipped = 0

    def add(self, values: NDArray[Any]) -> None:
        """Take the layer's output for one input, in real units."""
        self._values += values.size
        if values.size and (values.min() < self._low or values.max() > self._high):
            self._clipped += int(np.count_nonzero((values < self._low) | (values > self._high)))

    def merge(self, other: ClipSum) -> None:
        """Take what another one has taken; in any order, counts are exact."""
        self._values += other._values
        self._clipped += other._clipped

    @property
    def rate(self) -> float:
        """The share of all values, 0 to 1."""
        return self._clipped / self._values if self._values else 0.0
