"""A convolution; with a pool behind it where restructuring marked one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from nnkit.program import Conv2d, Tensor
from nnkit.quantize.fixed.conv_weights import Convolution, ConvolutionLowering, convolution_fields
from nnkit.quantize.fixed.pool import fused_pool
from nnkit.quantize.float_program import FloatConv2d
from nnkit.quantize.proof import Bound, running_bound, wide_bound
from nnkit.quantize.scheme import FixedPointScheme


class Conv2dLowering(ConvolutionLowering[FloatConv2d]):
    """The one op that has `running` semantics too."""

    def convolution(self, op: FloatConv2d, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Convolution:
        source, output = tensors[op.inputs[0]], tensors[op.output]
        pad = source.fixed.quantize_scalar(op.pad_value)
        low, high = min(source.low, pad), max(source.high, pad)
        running = scheme.accumulate == "running"

        def bound_of(weight: NDArray[Any], bias: NDArray[Any], bias_shift: int, shift: int) -> Bound:
            if running:
                return running_bound(weight, low, high, shift, output.fixed.bits)
            return wide_bound(weight, bias, low, high, bias_shift, shift)

        return Convolution(op, source, output, scheme, running, bound_of)

    def build(self, op: FloatConv2d, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Conv2d:
        conv = self.convolution(op, tensors, scheme)
        return Conv2d(
            **convolution_fields(conv),
            pad_value=conv.source.fixed.quantize_scalar(op.pad_value),
            accumulate=scheme.accumulate,
            pool=None if op.pool is None else fused_pool(op.pool),
        )
