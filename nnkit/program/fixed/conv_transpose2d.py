"""Transposed convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.convolution import convolve_transposed, exact_type
from nnkit.program.fixed.convolution import Convolution
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class ConvTranspose2d(Convolution):
    """Transposed convolution, `wide`: acc = (bias << bias_shift) + sum over taps that hit the output position.

    Output y[o, oy, ox] sums x[i, iy, ix] * w[i, o, ky, kx] with oy = iy*stride_h - pad_top + ky*dilation_h
    (and likewise in x). weight: [I, O/groups, kh, kw] as in ONNX; the output's size is the tensor's shape.
    """

    kind: ClassVar[str] = "conv_transpose2d"

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """[C, H, W] -> [O, OH, OW]."""
        (x,), output = inputs, tensors[self.output]
        weight = self.weight.astype(np.int64)
        reach = max(int(x.max(initial=0)), -int(x.min(initial=0)))
        dtype = exact_type(weight, reach, output_axis=1)
        data, kernel = x[None].astype(dtype), weight.astype(dtype)
        sums = convolve_transposed(data, kernel, self.window, self.groups, output.shape)[0]
        return self.stage.stored(sums.astype(np.int64) + self._shifted_bias(), self, output.fixed, watch)

    def multiply_accumulates(self, tensors: Tensors) -> int:
        """One per weight and input position."""
        height, width = tensors[self.inputs[0]].shape[-2:]
        return height * width * int(self.weight.size)
