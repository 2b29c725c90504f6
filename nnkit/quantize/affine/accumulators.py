"""Proofs that the sums of an affine op stay within its accumulator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError
from nnkit.program.affine import AffineTensor
from nnkit.program.op import Accumulator
from nnkit.quantize.proof import wide_bound


def conv_accumulator(
    rows: NDArray[np.int64], bias: NDArray[np.int32], source: AffineTensor, where: str, *, wide: bool
) -> Accumulator:
    """`int32` where no input can leave it, proven per output channel and sign-split; else `int64` if `wide`.

    rows: what `output_rows` gives; bias [O]. wide: the op may have 64 bits, which 2^29 products of a 17-bit weight
    and a 17-bit difference cannot leave.

    Raises ModelError where 32 bits are all there is and a sum can exceed them.
    """
    low, high = (end - source.zero_point for end in (source.format.qmin, source.format.qmax))
    bound = wide_bound(rows, bias, low, high, 0, 0)
    if bound.fits_int32:
        return "int32"
    if wide:
        return "int64"
    raise ModelError(
        f"its sums can reach {max(bound.high, -bound.low):.3g}, beyond 32 bits",
        where=where,
        remedy="split the layer, run it in 16 bits (tags: {hp: [...]}), or calibrate with images of the network's "
        "real input",
    )


def sum_accumulator(largest: int) -> Accumulator:
    """For sums whose magnitude is at most `largest`."""
    return "int32" if largest < 1 << 31 else "int64"


def output_rows(
    weight: NDArray[Any], zero_point: NDArray[np.int64], groups: int, *, transposed: bool
) -> NDArray[np.int64]:
    """The weights of each output channel [O, K], zero points taken off.

    weight: stored, conv [O, I/g, kh, kw], transposed [I, O/g, kh, kw]; zero_point broadcasts to it.
    """
    centred = weight.astype(np.int64) - zero_point
    if not transposed:
        return centred.reshape(len(centred), -1)
    grouped = centred.reshape(groups, -1, *centred.shape[1:])  # [g, I/g, O/g, kh, kw]
    return np.asarray(grouped.swapaxes(1, 2).reshape(groups * centred.shape[1], -1))
