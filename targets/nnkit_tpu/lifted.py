"""Layers that the compiler computes in float32 although the network, or its qtable, asks for F16 or BF16.

Found by reading the lowered program of every op in both precisions on the bm1684x and the bm1688; the cv18xx have no
float32. A tagged sigmoid, say, gives float32, and what reads it turns that into integers.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from nnkit.graph.view import Shape
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.program import (
    Mode,
    TpuActivation,
    TpuBinary,
    TpuGroupNorm,
    TpuLayerNorm,
    TpuOp,
    TpuPool,
    TpuReduce,
    TpuReshape,
)
from nnkit_tpu.recurrent import TpuRecurrent

_FUNCTIONS = ("sigmoid", "silu", "sqrt", "tanh", "elu", "softplus", "mish", "erf")


_LONGEST_SUM = {"F16": 256, "BF16": 9}
"""Values along the axes of a mean or sum that the BM chips add up in 16 bits.

They round the sum behind every addend: in F16, with 11 bits, one of like values no longer grows from 2048 of them on
(the mean of 3000 ones was 0.875, means of 500 and 900 like values were 0.4 and 0.5 % off on the bm1688), in BF16, as
pools, from 256 on.
"""
_MOST_ADDENDS = _LONGEST_SUM["BF16"]
"""Those of an average in BF16 on the BM chips, which round its sum to 8 bits behind every one of them.

Each rounding is by up to 2^-9 of the sum that it rounds. The mean of n like values is off by (n + 1) / 2 such parts
then, and by one more each for its factor and its result: in all 2^-6 of it at most for 9 values. Sums of hundreds do
not grow any more, as what is added is below half of their last bit: the mean of ones in windows of 17 x 17 was 0.887.
"""


def asked_mode(op: TpuOp, lifted: Mode) -> Mode:
    """What an op that runs in float32 is asked for. lifted: what the compiler computes in float32 by itself.

    In 16 bits the bm1688 computes the error function coarsely, beside it by up to 0.03, and the BM chips a mean that
    is large beside the deviation: these are asked for in float32, as are averages that BF16 is too coarse for, and
    what F16 does not hold.
    """
    coarse = (
        op.beyond_f16
        or isinstance(op, TpuGroupNorm)
        or (isinstance(op, TpuPool) and lifted == "BF16")
        or isinstance(op, TpuReduce)
        or (isinstance(op, TpuActivation) and op.function == "erf")
    )
    return "F32" if coarse else lifted


def computed_mode(op: TpuOp, asked: Mode, chip: str, float32: Collection[str], shape: Shape = ()) -> Mode:
    """The precision that an op really runs in.

    float32: the values that are in float32 already. shape: of the first input, for reductions.
    """
    if chip in CV_CHIPS or asked not in ("F16", "BF16"):
        return asked
    match op:
        case TpuActivation():
            lifted = op.function in _FUNCTIONS or (op.function == "gelu" and chip == "bm1684x")
            lifted |= op.function == "hard_sigmoid" and chip == "bm1684x" and asked == "F16"
        case TpuBinary() if op.function == "div":
            lifted = chip == "bm1684x" or op.constant is not None
        case TpuPool() if op.function == "average":
            lifted = asked == "F16" or op.window.kernel_h * op.window.kernel_w > _MOST_ADDENDS
        case TpuReduce():
            image = op.function == "mean" and op.axes == (2, 3)  # the compiler makes an average pool of it
            lifted = (asked == "F16" and image) or _is_long_sum(op, asked, shape)
        case TpuGroupNorm():
            lifted = True  # as it is asked for
        case TpuLayerNorm():
            lifted = chip == "bm1688" and asked == "BF16"
        case TpuRecurrent():
            lifted = op.cell == "gru" or asked == "F16"
        case TpuReshape():
            lifted = op.inputs[0] in float32
        case _:
            lifted = False
    return "F32" if lifted else asked


def _is_long_sum(op: TpuReduce, asked: Mode, shape: Shape) -> bool:
    if op.function in ("max", "min") or not shape:
        return False
    return math.prod(shape[axis] for axis in op.axes) > _LONGEST_SUM[asked]
