"""A transposed convolution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from nnkit.program import ConvTranspose2d, Tensor
from nnkit.quantize.fixed.conv_weights import Convolution, ConvolutionLowering, convolution_fields
from nnkit.quantize.float_program import FloatConvTranspose2d
from nnkit.quantize.proof import Bound, wide_bound
from nnkit.quantize.scheme import FixedPointScheme


class ConvTranspose2dLowering(ConvolutionLowering[FloatConvTranspose2d]):
    """Always `wide`: there is no kernel that accumulates by the `running` semantics."""

    def convolution(
        self, op: FloatConvTranspose2d, tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> Convolution:
        source = tensors[op.inputs[0]]

        def bound_of(weight: NDArray[Any], bias: NDArray[Any], bias_shift: int, shift: int) -> Bound:
            # [I, O/g, kh, kw] -> [O, I/g, kh, kw]; taking every tap together bounds each output from above.
            per_in, per_out = weight.shape[0] // op.groups, weight.shape[1]
            split = weight.reshape(op.groups, per_in, per_out, *weight.shape[2:])
            by_output = split.transpose(0, 2, 1, 3, 4).reshape(op.groups * per_out, per_in, *weight.shape[2:])
            return wide_bound(by_output, bias, min(source.low, 0), max(source.high, 0), bias_shift, shift)

        return Convolution(op, source, tensors[op.output], scheme, False, bound_of)

    def build(
        self, op: FloatConvTranspose2d, tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> ConvTranspose2d:
        return ConvTranspose2d(**convolution_fields(self.convolution(op, tensors, scheme)))
