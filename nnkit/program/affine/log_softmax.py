"""The logarithm of a softmax in integers: exponentials and logarithms from tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import frexp
from typing import Any, ClassVar

import numpy as np

from nnkit.errors import ModelError
from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.affine.softmax import AffineSoftmax
from nnkit.program.logarithm import LOGARITHM_BITS, logarithm_table, logarithms
from nnkit.program.tensor import Array, Arrays, IntArray

_FACTOR_BITS, _MOST_SHIFT, _MOST_ELEMENTS = 31, 40, 65536


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineLogSoftmax(AffineOpBase):
    """Along `axis` of the tensor, which has no batch:

    d_i = max x - x_i and e_i as `AffineSoftmax` has them; l = ln(sum e / 2^31) as in `nnkit.program.logarithm`;
    y_i = clamp(zero point - ((d_i * difference + ((l * logarithm) >> extra) + 2^(shift - 1)) >> shift)).

    coarse, fine: of `AffineSoftmax.tables`. logarithms: [257]. difference: 2^shift * scale of the input / scale of
    the output; logarithm: 2^(shift + extra - 24) / scale of the output; both below 2^31. shift: at least 1.
    """

    kind: ClassVar[str] = "log_softmax"
    axis: int
    coarse: IntArray
    fine: IntArray
    logarithms: IntArray
    difference: int
    logarithm: int
    extra: int
    shift: int

    @staticmethod
    def constants(source: AffineTensor, output: AffineTensor, length: int, name: str) -> dict[str, Any]:
        """The constants for these formats by name. length: of the axis.

        Raises ModelError where it is above 65536, or the output's scale too small beside the input's.
        """
        ratio, unit = source.scale / output.scale, 2.0**-LOGARITHM_BITS / output.scale
        shift = min(_MOST_SHIFT, *(_FACTOR_BITS - 1 - frexp(each)[1] for each in (ratio, unit)))
        if shift < 1 or length > _MOST_ELEMENTS:
            raise ModelError(
                f"the logarithm of a softmax of {length} elements, from units of {source.scale:g} to units of "
                f"{output.scale:g}, has no exact integers here",
                where=name,
                remedy=f"take at most {_MOST_ELEMENTS} elements, of values of the size of their logarithms",
            )
        extra = min(_MOST_SHIFT, _FACTOR_BITS - 1 - frexp(unit * 2.0**shift)[1])
        coarse, fine, _ = AffineSoftmax.tables(source, output)
        return {
            "coarse": coarse,
            "fine": fine,
            "logarithms": logarithm_table(),
            "difference": round(ratio * 2.0**shift),
            "logarithm": round(unit * 2.0 ** (shift + extra)),
            "extra": extra,
            "shift": shift,
        }

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        x, axis = inputs[0].astype(np.int64), self.axis + 1
        below = x.max(axis=axis, keepdims=True) - x
        powers = (self.coarse[below >> 8] * self.fine[below & 255]) >> 31
        total = logarithms(powers.sum(axis=axis, keepdims=True), 31, self.logarithms)
        half = 1 << (self.shift - 1)
        down = (below * self.difference + ((total * self.logarithm) >> self.extra) + half) >> self.shift
        return np.asarray(np.clip(output.zero_point - down, output.format.qmin, output.format.qmax))
