"""Convolution and transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.affine.requantize import Requantize
from nnkit.program.convolution import convolve, convolve_transposed, exact_type
from nnkit.program.formats import Affine
from nnkit.program.op import Proof
from nnkit.program.tensor import Array, Arrays, IntArray, Tensors
from nnkit.program.window import Window

_COLUMN_BYTES = 32 << 20  # im2col scratch: inputs are taken so many at a time that it stays below


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineConv(AffineOpBase):
    """acc = bias + sum((x - zx) * (w - zw)); RQ per output channel. Padding reads `pad_value` (stored; zx for 0).

    weight: stored integers (int8, int16), conv [O, I/g, kh, kw], transposed [I, O/g, kh, kw]; weight_format has their
    scales (its axis is that of the output channels, or None). bias: int32 [O] in units of input scale * weight scale.
    """

    weight: Array
    weight_format: Affine
    bias: NDArray[np.int32]
    window: Window
    groups: int
    pad_value: int
    transposed: bool
    requantize: Requantize
    kind: ClassVar[str] = "conv2d"
    proof: Proof = "proven"

    def accumulators(self, x: Array, source: AffineTensor, output_shape: tuple[int, ...]) -> IntArray:
        """The accumulators for `source`'s values x [N, C, H, W], as int64 [N, O, OH, OW]."""
        zero_point = source.zero_point
        weight = self.weight.astype(np.int64) - self.weight_zero_points()
        dtype = exact_type(weight, source.reach, output_axis=1 if self.transposed else 0)
        data, kernel = x.astype(dtype) - dtype.type(zero_point), weight.astype(dtype)

        def sums(part: Array) -> Array:
            if self.transposed:
                return convolve_transposed(part, kernel, self.window, self.groups, output_shape)
            return convolve(part, kernel, self.window, self.groups, self.pad_value - zero_point)

        column_values = 4 * max(1, int(np.prod(output_shape[-2:]))) * int(np.prod(self.weight.shape[1:]))
        step = max(1, _COLUMN_BYTES // (column_values * dtype.itemsize))
        parts = [sums(data[i : i + step]) for i in range(0, len(x), step)]
        return np.concatenate(parts).astype(np.int64) + self.bias.astype(np.int64)[:, None, None]

    def multiply_accumulates(self, tensors: Tensors) -> int:
        """One per weight and output position, of a transposed convolution per input position."""
        positions = tensors[self.inputs[0] if self.transposed else self.output].shape[-2:]
        return int(np.prod(positions)) * int(self.weight.size)

    def weight_bytes(self) -> int:
        """Weights of their bits, biases of 32."""
        return (self.weight.size * self.weight_format.bits + self.bias.size * 32) // 8

    def weight_formats(self) -> dict[str, str]:
        """Formats of weight and bias."""
        return {"weight": str(self.weight_format), "bias": "s32 affine"}

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        return self.requantize.stored(self.accumulators(inputs[0], sources[0], output.shape), output)

    def weight_zero_points(self) -> IntArray:
        """Those of the weights, broadcasting to them."""
        shape = [1] * self.weight.ndim
        if self.weight_format.axis is not None:
            shape[self.weight_format.axis] = -1
        return np.asarray(self.weight_format.zero_point, np.int64).reshape(shape)
