"""Which lowering belongs to which float op."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from nnkit.quantize.fixed.activation import ActivationLowering
from nnkit.quantize.fixed.add import AddLowering
from nnkit.quantize.fixed.concat import ConcatLowering
from nnkit.quantize.fixed.conv2d import Conv2dLowering
from nnkit.quantize.fixed.conv_transpose2d import ConvTranspose2dLowering
from nnkit.quantize.fixed.embedding import EmbeddingLowering
from nnkit.quantize.fixed.log_softmax import LogSoftmaxLowering
from nnkit.quantize.fixed.lookup import LookupLowering
from nnkit.quantize.fixed.lowering import Lowering
from nnkit.quantize.fixed.matmul import MatMulLowering
from nnkit.quantize.fixed.mul import MulLowering
from nnkit.quantize.fixed.normalize_rows import NormalizeRowsLowering
from nnkit.quantize.fixed.pad import PadLowering
from nnkit.quantize.fixed.pool import AveragePoolLowering, MaxPoolLowering
from nnkit.quantize.fixed.reshape import ReshapeLowering
from nnkit.quantize.fixed.sign import SignLowering
from nnkit.quantize.fixed.slice import SliceLowering
from nnkit.quantize.fixed.softmax import SoftmaxLowering
from nnkit.quantize.fixed.transpose import TransposeLowering
from nnkit.quantize.fixed.upsample import UpsampleLowering
from nnkit.quantize.float_program import (
    FloatActivation,
    FloatAdd,
    FloatAveragePool,
    FloatConcat,
    FloatConv2d,
    FloatConvTranspose2d,
    FloatEmbedding,
    FloatFunction,
    FloatLogSoftmax,
    FloatMatMul,
    FloatMaxPool,
    FloatMul,
    FloatNormalizeRows,
    FloatOp,
    FloatPad,
    FloatReshape,
    FloatSign,
    FloatSlice,
    FloatSoftmax,
    FloatTranspose,
    FloatUpsample,
)

_LOWERINGS: Mapping[type[FloatOp], Lowering[Any]] = MappingProxyType(
    {
        FloatActivation: ActivationLowering(),
        FloatAdd: AddLowering(),
        FloatAveragePool: AveragePoolLowering(),
        FloatConcat: ConcatLowering(),
        FloatConv2d: Conv2dLowering(),
        FloatConvTranspose2d: ConvTranspose2dLowering(),
        FloatFunction: LookupLowering(),
        FloatMaxPool: MaxPoolLowering(),
        FloatMul: MulLowering(),
        FloatPad: PadLowering(),
        FloatReshape: ReshapeLowering(),
        FloatSign: SignLowering(),
        FloatSlice: SliceLowering(),
        FloatTranspose: TransposeLowering(),
        FloatUpsample: UpsampleLowering(),
        FloatSoftmax: SoftmaxLowering(),
        FloatLogSoftmax: LogSoftmaxLowering(),
        FloatEmbedding: EmbeddingLowering(),
        FloatNormalizeRows: NormalizeRowsLowering(),
        FloatMatMul: MatMulLowering(),
    }
)


def lowering_of(op: FloatOp) -> Lowering[Any]:
    """The lowering of an op's class."""
    return _LOWERINGS[type(op)]
