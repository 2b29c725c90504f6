"""Sum, product, and an activation on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.affine.requantize import Requantize
from nnkit.program.op import Proof
from nnkit.program.tensor import Array, Arrays


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineAdd(AffineOpBase):
    """acc = (a - za) * ma + (b - zb) * mb; RQ with multiplier 1 and the shared shift.

    |m| <= 2^20 and int32 for operands of 8 bits, |m| <= 2^30 and int64 where one has 16.
    """

    kind: ClassVar[str] = "add"
    multipliers: tuple[int, int]
    requantize: Requantize
    proof: Proof = "proven"

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        a, b = (
            tensor.centred(x) * factor for tensor, x, factor in zip(sources, inputs, self.multipliers, strict=True)
        )
        return self.requantize.stored(a + b, output)


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineMul(AffineOpBase):
    """acc = (a - za) * (b - zb); RQ. The second input has the first's shape or is [C, 1, 1]."""

    kind: ClassVar[str] = "mul"
    requantize: Requantize
    proof: Proof = "proven"

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        a, b = (tensor.centred(x) for tensor, x in zip(sources, inputs, strict=True))
        return self.requantize.stored(a * b, output)


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineActivation(AffineOpBase):
    """acc = x - zx; RQ with bounds or slopes."""

    kind: ClassVar[str] = "activation"
    requantize: Requantize

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        return self.requantize.stored(sources[0].centred(inputs[0]), output)
