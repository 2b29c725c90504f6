"""Copies of values, for the cv18xx."""

from __future__ import annotations

from nnkit.program import Window
from nnkit_tpu.program import TpuOp, TpuPad, TpuPool, TpuTensor


def copy_of(tensor: TpuTensor, output: str, number: int, *, integer: bool) -> TpuOp:
    """An op that copies a value. Each is different: the compiler keeps only the first of equal ops on one value.

    A pool that differs by its limit gives zeros in BF16, which takes the limit at its word.
    """
    if len(tensor.shape) == 4 and integer:
        one = Window(kernel_h=1, kernel_w=1)
        own = -1.0 - number  # of a relu that the pool does not have
        return TpuPool(name=output, inputs=(tensor.name,), output=output, function="max", window=one, relu_limit=own)
    pads = (0,) * (2 * len(tensor.shape))
    return TpuPad(name=output, inputs=(tensor.name,), output=output, pads=pads, value=float(number))
