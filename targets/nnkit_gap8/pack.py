"""Weights as the kernels read them: blocks of 4 output channels, back to back in `weights.bin`.

A block: the 4 accumulators' starting values (int32, or int64 where the op accumulates in 64 bits), 4 int16 slopes
where the op is leaky, then the weights as [taps][4]: the 4 output channels of one tap are neighbours. Lanes beyond
the last channel are zero. Little endian, padded to 4 bytes.

Order of taps: input channel, kernel row, kernel column (as in OIHW); for a transposed convolution by output phase,
and inside a phase input channel, kernel row, kernel column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError
from nnkit.program import Conv2d, Convolution, ConvTranspose2d, OpBase
from nnkit_gap8.kernels import LANES, align4
from nnkit_gap8.phases import output_phases


def pack_weights(op: OpBase) -> list[bytes]:
    """The weight blocks of `op` in order; empty for an op without weights."""
    if isinstance(op, Conv2d):
        channels = [op.weight[o].reshape(-1) for o in range(op.weight.shape[0])]
        per_group = len(channels) if _is_depthwise(op) else len(channels) // op.groups
    elif isinstance(op, ConvTranspose2d):
        channels = _transposed_channels(op)
        per_group = int(op.weight.shape[1])
    else:
        return []
    starts = accumulator_starts(op)
    slopes = None
    if op.stage.leaky is not None:
        slopes = np.broadcast_to(op.stage.leaky.slopes, (len(channels),))
    blocks = []
    for group_start in range(0, len(channels), per_group):
        for first in range(group_start, group_start + per_group, LANES):
            rows = range(first, min(first + LANES, group_start + per_group))
            blocks.append(_block(op, [channels[o] for o in rows], starts[list(rows)], _rows(slopes, rows)))
    return blocks


def accumulator_starts(op: Convolution) -> NDArray[np.int64]:
    """What each output channel's accumulator starts from: [O].

    wide: bias << bias_shift plus the rounding constant 2^(shift-1), so that the output stage only shifts.
    running: the bias itself (its first rounding comes with the first input channel). A depthwise convolution has
    one input channel per output, for which `running` is `wide` with the bias shifted by the stage's shift.
    """
    shift = op.stage.shift
    rounding = 1 << (shift - 1) if shift else 0
    bias = op.bias.astype(np.int64)
    if isinstance(op, Conv2d) and op.accumulate == "running":
        if not _is_depthwise(op):
            return bias
        return (bias << shift) + rounding
    return (bias << op.bias_shift) + rounding


def _is_depthwise(op: Conv2d) -> bool:
    return op.groups > 1 and op.weight.shape[1] == 1 and op.weight.shape[0] == op.groups


def _rows(values: NDArray[Any] | None, rows: range) -> NDArray[Any] | None:
    return None if values is None else values[list(rows)]


def _block(
    op: Convolution,
    channels: list[NDArray[Any]],
    starts: NDArray[np.int64],
    slopes: NDArray[Any] | None,
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


def _transposed_channels(op: ConvTranspose2d) -> list[NDArray[Any]]:
    """Flat taps of every output channel, sorted by output phase."""
    in_per_group = op.weight.shape[0] // op.groups
    phases = output_phases(op.window)
    channels = []
    for group in range(op.groups):
        planes = op.weight[group * in_per_group : (group + 1) * in_per_group]  # [I/groups, O/groups, kh, kw]
        for o in range(op.weight.shape[1]):
            parts = [
                planes[:, o][:, [tap.index for tap in phase.taps_y]][:, :, [tap.index for tap in phase.taps_x]]
                for phase in phases
            ]
            channels.append(np.concatenate([part.reshape(-1) for part in parts]))
    return channels
