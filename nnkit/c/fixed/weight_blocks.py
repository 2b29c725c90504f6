"""Weights as the kernels read them: blocks of 4 output channels.

A block: the 4 accumulators' starting values (int32, or int64 where the op accumulates in 64 bits), 4 int16 slopes
where the op is leaky, then the weights as [taps][4]: the 4 output channels of one tap are neighbours. Lanes beyond
the last channel are zero. Little endian, padded to 4 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError
from nnkit.program import Convolution

LANES = 4  # output channels of a weight block


def align4(size_bytes: int) -> int:
    """`size_bytes` rounded up to a multiple of 4."""
    return -(-size_bytes // 4) * 4


def block_bytes(op: Convolution, taps: int) -> int:
    """Bytes of one weight block of `taps` rows."""
    start_bytes = 8 if op.accumulator == "int64" else 4
    slopes = LANES * 2 if op.stage.leaky is not None else 0
    return align4(LANES * start_bytes + slopes + taps * LANES * op.weight_bits // 8)


def wide_starts(op: Convolution) -> NDArray[np.int64]:
    """What each output channel's accumulator starts from: [O].

    bias << bias_shift plus the rounding constant 2^(shift-1), so that the output stage only shifts.
    """
    return (op.bias.astype(np.int64) << op.bias_shift) + rounding(op)


def rounding(op: Convolution) -> int:
    """The rounding constant of the output stage: 2^(shift-1), or 0 where nothing is shifted."""
    return 1 << (op.stage.shift - 1) if op.stage.shift else 0


def pack(op: Convolution, channels: Sequence[NDArray[Any]], per_group: int, starts: NDArray[np.int64]) -> list[bytes]:
    """The blocks of all output channels, of each its flat taps. No block holds channels of two groups.

    per_group: output channels of one group. starts: of the accumulators, by output channel.
    """
    slopes = None
    if op.stage.leaky is not None:
        slopes = np.broadcast_to(op.stage.leaky.slopes, (len(channels),))
    blocks = []
    for group_start in range(0, len(channels), per_group):
        for first in range(group_start, group_start + per_group, LANES):
            lanes = slice(first, min(first + LANES, group_start + per_group))
            blocks.append(_block(op, channels[lanes], starts[lanes], None if slopes is None else slopes[lanes]))
    return blocks


def _block(
    op: Convolution, channels: Sequence[NDArray[Any]], starts: NDArray[np.int64], slopes: NDArray[Any] | None
) -> bytes:
    """One block from up to LANES channels of flat taps."""
    bits = op.weight_bits
    limit = 1 << (bits - 1)
    taps = np.zeros((len(channels[0]), LANES), dtype=np.int64)
    for lane, values in enumerate(channels):
        taps[:, lane] = values
    if taps.size and (taps.min() < -limit or taps.max() >= limit):
        raise InternalError(f"weights do not fit {bits} bits", where=op.name)
    head = np.zeros(LANES, dtype=np.int64)
    head[: len(starts)] = starts
    if op.accumulator == "int64":
        data = head.astype("<i8").tobytes()
    else:
        data = (head & 0xFFFFFFFF).astype("<u4").tobytes()  # modulo 2^32, as the accumulator is
    if slopes is not None:
        lanes = np.zeros(LANES, dtype=np.int64)
        lanes[: len(slopes)] = slopes
        data += lanes.astype("<i2").tobytes()
    data += taps.astype(f"<i{bits // 8}").tobytes()
    return data.ljust(align4(len(data)), b"\0")
