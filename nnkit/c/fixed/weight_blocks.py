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
    slopes = _slopes(op, len(channels))
    blocks = []
    for group_start in range(0, len(channels), per_group):
        for first in range(group_start, group_start + per_group, LANES):
            lanes = slice(first, min(first + LANES, group_start + per_group))
            blocks.append(_block(op, channels[lanes], starts[lanes], None if slopes is None else slopes[lanes]))
    return blocks


def pack_lanes(op: Convolution, lanes: NDArray[np.int64], lane_bytes: int) -> list[bytes]:
    """The blocks for packed dot products: starts of 32 bits, slopes, then groups of lanes of each channel in turn.

    lanes: [O, groups, lanes of a group], each of `lane_bytes`.
    """
    starts, slopes = wide_starts(op), _slopes(op, len(lanes))
    blocks = []
    for first in range(0, len(lanes), LANES):
        channels = slice(first, first + LANES)
        head = _head(starts[channels], None if slopes is None else slopes[channels], "<u4")
        groups = np.zeros((lanes.shape[1], LANES, lanes.shape[2]), dtype=np.int64)
        groups[:, : len(lanes[channels])] = lanes[channels].transpose(1, 0, 2)
        blocks.append(head + groups.astype(f"<i{lane_bytes}").tobytes())
    return blocks


def _slopes(op: Convolution, channels: int) -> NDArray[Any] | None:
    """By output channel; None: not leaky."""
    return None if op.stage.leaky is None else np.broadcast_to(op.stage.leaky.slopes, (channels,))


def _head(starts: NDArray[np.int64], slopes: NDArray[Any] | None, kind: str) -> bytes:
    """A block's starts, of the kind that numpy names, and its slopes, if any: of up to LANES channels."""
    room = LANES - len(starts)
    wide = np.pad(starts, (0, room))
    data = (wide & 0xFFFFFFFF if kind == "<u4" else wide).astype(kind).tobytes()  # modulo 2^32, as the accumulator is
    return data if slopes is None else data + np.pad(slopes, (0, room)).astype("<i2").tobytes()


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
    data = _head(starts, slopes, "<i8" if op.accumulator == "int64" else "<u4")
    data += taps.astype(f"<i{bits // 8}").tobytes()
    return data.ljust(align4(len(data)), b"\0")
