"""Integer weights as bytes in local memory, and back.

An INT8 convolution carries, in front of its taps (BM) or beside them (cv18xx), its bias (32 bits), multiplier (32
bits) and shift (8 bits) of every output channel. The order of the taps within a channel is ours; sizes are the
compiler's. Parameters that are part of an instruction (a matrix product's multiplier, the shift of slopes), and
the factors of a `scale`, stay with the op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit_tpu.layer_group.model import GroupOp, GroupWeight
from nnkit_tpu.program import (
    IntegerTable,
    IntegerWeights,
    Requant,
    TpuActivation,
    TpuConv,
    TpuDeconv,
    TpuMatMul,
    TpuOp,
)

_HEAD_BYTES = 9
Blobs = dict[str, NDArray[np.int8]]


def pack(op: TpuOp, planned: GroupOp, weights: Mapping[str, GroupWeight]) -> Blobs:
    """The bytes of an op's weights by name, in the planned sizes; what packing fills up is 0."""
    blobs = {name: _blank(weights[name]) for name in planned.weights}
    arrays = list(blobs.values())
    match op:
        case TpuConv() | TpuDeconv() if isinstance(op.integer, IntegerWeights) and arrays:
            channels = op.weight.shape[0]
            taps = op.integer.weight.astype(np.uint8).view(np.int8).reshape(channels, -1)
            head = _head(op.integer, channels)
            if len(arrays) == 1:
                body = arrays[0].reshape(channels, -1)
                body[:, :_HEAD_BYTES] = head
                body[:, body.shape[1] - taps.shape[1] :] = taps
            else:
                arrays[0].reshape(channels, -1)[:, : taps.shape[1]] = taps
                arrays[1].reshape(channels, -1)[:, :_HEAD_BYTES] = head
        case TpuMatMul() if isinstance(op.integer, IntegerWeights) and arrays:
            arrays[0].reshape(-1)[:] = op.integer.weight.astype(np.uint8).view(np.int8).reshape(-1)
            if op.integer.bias is not None:
                arrays[1].reshape(-1)[:] = np.ascontiguousarray(op.integer.bias.astype("<i4")).view(np.int8)
        case TpuActivation() if isinstance(op.integer, IntegerTable) and arrays:
            arrays[0].reshape(-1)[:] = op.integer.table.astype(np.uint8).view(np.int8)
        case TpuActivation() if isinstance(op.integer, IntegerWeights) and arrays:
            arrays[0].reshape(-1)[:] = op.integer.weight.astype(np.int8)
        case _:
            pass
    return blobs


def unpack(op: TpuOp, planned: GroupOp, blobs: Sequence[NDArray[Any]]) -> TpuOp:
    """The op with the weights that the bytes mean."""
    if not planned.weights:
        return op
    arrays = [np.ascontiguousarray(blob).view(np.int8) for blob in blobs]
    match op:
        case TpuConv() | TpuDeconv() if isinstance(op.integer, IntegerWeights):
            channels, count = op.weight.shape[0], op.integer.weight.size // op.weight.shape[0]
            rows = arrays[0].reshape(channels, -1)
            taps = rows[:, rows.shape[1] - count :] if len(arrays) == 1 else rows[:, :count]
            head = rows[:, :_HEAD_BYTES] if len(arrays) == 1 else arrays[1].reshape(channels, -1)[:, :_HEAD_BYTES]
            return replace(op, integer=_with_head(op.integer, _integers(taps, op.integer), head))
        case TpuMatMul() if isinstance(op.integer, IntegerWeights):
            weight = _integers(arrays[0], op.integer).reshape(op.integer.weight.shape)
            bias = None if op.integer.bias is None else arrays[1].reshape(-1).view("<i4").astype(np.int32)
            return replace(op, integer=replace(op.integer, weight=weight, bias=bias))
        case TpuActivation() if isinstance(op.integer, IntegerTable):
            signed = bool(op.integer.table.min() < 0)
            table = arrays[0].reshape(-1) if signed else arrays[0].reshape(-1).view(np.uint8)
            return replace(op, integer=IntegerTable(table.astype(np.int64)))
        case TpuActivation() if isinstance(op.integer, IntegerWeights):
            return replace(op, integer=replace(op.integer, weight=arrays[0].reshape(-1).astype(np.int16)))
        case _:
            return op


def _blank(weight: GroupWeight) -> NDArray[np.int8]:
    return np.zeros((*weight.shape[:3], weight.shape[3] * weight.dtype_bytes), np.int8)


def _head(integer: IntegerWeights, channels: int) -> NDArray[np.int8]:
    """[channels, 9] bytes: bias, multiplier, shift."""
    bias = np.zeros(channels, np.int32) if integer.bias is None else integer.bias
    words = np.stack([bias, np.broadcast_to(integer.requant.multiplier, channels)], 1).astype("<i4")
    shifts = np.broadcast_to(integer.requant.shift, channels).astype(np.int8)[:, None]
    return np.concatenate([np.ascontiguousarray(words).view(np.int8).reshape(channels, 8), shifts], 1)


def _with_head(integer: IntegerWeights, taps: NDArray[np.int16], head: NDArray[np.int8]) -> IntegerWeights:
    words = np.ascontiguousarray(head[:, :8]).view("<i4").astype(np.int64)
    stage = Requant(words[:, 1], head[:, 8].astype(np.int64), integer.requant.rounding)
    # Without a bias its bytes are 0, and count all the same.
    return IntegerWeights(taps.reshape(integer.weight.shape), words[:, 0].astype(np.int32), stage)


def _integers(taps: NDArray[np.int8], integer: IntegerWeights) -> NDArray[np.int16]:
    unsigned = bool(integer.weight.max(initial=0) > 127)
    return (np.ascontiguousarray(taps).view(np.uint8) if unsigned else taps).astype(np.int16)
