"""Softmax along an axis."""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.errors import ModelError
from nnkit.program import Softmax, Tensor
from nnkit.quantize.fixed.lowering import Lowering, common_fields
from nnkit.quantize.float_program import FloatSoftmax
from nnkit.quantize.scheme import FixedPointScheme

_MOST_ELEMENTS = 32768
"""Sums of so many fit 32 bits."""


class SoftmaxLowering(Lowering[FloatSoftmax]):
    """The output's range is known (`nnkit.quantize.known_ranges`), whatever was seen."""

    def has_own_range(self, op: FloatSoftmax) -> bool:
        return False

    def build(self, op: FloatSoftmax, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Softmax:
        source, output = tensors[op.inputs[0]], tensors[op.output]
        coarse, fine = Softmax.tables(source.fixed.bits, source.fixed.frac)
        frac, size = output.fixed.frac, output.shape[op.axis]
        if frac < 0 or size > _MOST_ELEMENTS:
            raise ModelError(
                f"a softmax of {size} elements into a format without fraction has no exact integers here",
                where=op.name,
                remedy=f"take at most {_MOST_ELEMENTS} elements, and join no large numbers to its result",
            )
        bound = 0.5 + 2.5 * 2.0 ** (frac - 16) * (1 + size)
        return Softmax(
            **common_fields(op),
            axis=op.axis,
            coarse=coarse,
            fine=fine,
            frac=frac,
            clip_min=output.low,
            clip_max=output.high,
            proof_note=f"at most {bound:.3g} units of its output from Softmax of its input",
        )
