"""Normalisation and matrix product over the last axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.affine.requantize import Requantize
from nnkit.program.op import Proof
from nnkit.program.row_arithmetic import AFFINE_PARTS, normalized_rows
from nnkit.program.tensor import Array, Arrays, IntArray, Tensors


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineNormalizeRows(AffineOpBase):
    """LayerNormalization over the last axis: z * gain + offset, shifted right with rounding.

    z: as in `nnkit.program.row_arithmetic`.

    real_gain, real_offset, real_epsilon: what they came from, for exports.
    """

    kind: ClassVar[str] = "normalize_rows"
    epsilon: int
    gain: IntArray
    offset: IntArray
    shift: int
    real_gain: Array
    real_offset: Array
    real_epsilon: float

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        z = normalized_rows(inputs[0].astype(np.int64), self.epsilon, AFFINE_PARTS)
        rounded = (z * self.gain + self.offset + (1 << (self.shift - 1))) >> self.shift
        return np.asarray(np.clip(rounded + output.zero_point, output.format.qmin, output.format.qmax))


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineMatMul(AffineOpBase):
    """[..., m, k] times [..., k, n]: acc = sum of (a - za) * (b - zb) over k; RQ."""

    kind: ClassVar[str] = "matmul"
    requantize: Requantize
    proof: Proof = "proven"

    def multiply_accumulates(self, tensors: Tensors) -> int:
        """One for each element of the result and each of a row."""
        return tensors[self.output].elements * tensors[self.inputs[0]].shape[-1]

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        a, b = (tensor.centred(x) for tensor, x in zip(sources, inputs, strict=True))
        return self.requantize.stored(a @ b, output)
