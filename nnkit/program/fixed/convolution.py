"""What both convolutions have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.program.fixed.output_stage import OutputStage
from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, IntArray
from nnkit.program.window import Window


@dataclass(frozen=True, eq=False, kw_only=True)
class Convolution(OpBase):
    """Weights and bias as integers, how the window moves, the output stage.

    A weight stands for w * 2^-weight_frac; the bias [O] is shifted left by bias_shift to the accumulator's fraction.
    """

    weight: Array
    weight_bits: int
    weight_frac: int
    bias: NDArray[np.int32]
    bias_frac: int
    bias_shift: int
    window: Window
    stage: OutputStage
    groups: int = 1

    def weight_bytes(self) -> int:
        """Weights of their bits, biases of 32."""
        return (self.weight.size * self.weight_bits + self.bias.size * 32) // 8

    def weight_formats(self) -> dict[str, str]:
        """Formats of weight and bias."""
        return {"weight": f"s{self.weight_bits}.{self.weight_frac}", "bias": f"s32.{self.bias_frac}"}

    def _shifted_bias(self) -> IntArray:
        """The bias in the accumulator's fraction: [O, 1, 1]."""
        return np.asarray(self.bias.astype(np.int64) << self.bias_shift)[:, None, None]
