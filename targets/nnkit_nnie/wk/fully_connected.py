"""Fully connected layers in a compiled network, 8 bits: how their records hold the codes, and these against ours.

A record for 48 outputs: an int32 for each, filled up to 64 bytes, then codes [outputs / 4][I / 16][4][16], both
rounded up, missing ones 0x80. All of a layer has one scale. The int32 are biases in a unit that is not known, the
multiplier is elsewhere, and in which order inputs stand that were a map was not seen: so the codes of each output are
compared without regard to their order.

Source: a file that the vendor's mapper made, of a network whose weights were not at hand: of 512 x 12 places those
beyond 500 inputs and 10 outputs hold 0x80, and the largest code of each layer, once, is 127.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit_nnie.gfpq.ops import NnieWeighted
from nnkit_nnie.wk.numbers import LayerNumbers, near_half
from nnkit_nnie.wk.records import WkRecord

_OUTPUTS, _BLOCK, _INPUTS = 48, 4, 16
_HEAD_BYTES, _BIAS_BYTES = 64, 4
_OUTPUTS_BY_INPUTS, _BYTE = 2, 8


@dataclass(frozen=True)
class FullyConnectedLayout:
    """Records of one layer. outputs, inputs: of the layer."""

    outputs: int
    inputs: int

    @property
    def records(self) -> int:
        """How many records it has."""
        return -(-self.outputs // _OUTPUTS)

    def outputs_of(self, record: int) -> slice:
        """The outputs that a record holds."""
        first = record * _OUTPUTS
        return slice(first, min(first + _OUTPUTS, self.outputs))

    def size_bytes(self, record: int) -> int:
        """Bytes of a record, unpacked."""
        return self._head_bytes(record) + self._blocks(record) * _BLOCK * self._groups * _INPUTS

    def read(self, payload: memoryview, record: int) -> NDArray[np.int64]:
        """The codes of a record, [outputs rounded up to 4, inputs rounded up to 16]."""
        stored = np.frombuffer(payload[self._head_bytes(record) :], np.uint8).astype(np.int64)
        ordered = stored.reshape(self._blocks(record), self._groups, _BLOCK, _INPUTS).transpose(0, 2, 1, 3)
        return ordered.reshape(-1, self._groups * _INPUTS)

    @property
    def _groups(self) -> int:
        return -(-self.inputs // _INPUTS)

    def _count(self, record: int) -> int:
        return min(_OUTPUTS, self.outputs - record * _OUTPUTS)

    def _blocks(self, record: int) -> int:
        return -(-self._count(record) // _BLOCK)

    def _head_bytes(self, record: int) -> int:
        return -(-self._count(record) * _BIAS_BYTES // _HEAD_BYTES) * _HEAD_BYTES


@dataclass(frozen=True, eq=False)
class StoredFullyConnected:
    """A layer with its layout."""

    op: NnieWeighted
    layout: FullyConnectedLayout

    @property
    def records(self) -> int:
        """How many records it has."""
        return self.layout.records

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """Bytes of each of its records."""
        return tuple(self.layout.size_bytes(record) for record in range(self.records))

    def fits(self, records: Sequence[WkRecord]) -> bool:
        """Whether these may be its records, by their sizes."""
        return self.sizes_bytes == tuple(record.size_bytes for record in records)

    def likeness(self, window: Sequence[WkRecord]) -> float:
        """Nothing is recognised by content: its sizes are rarely another layer's."""
        return 0.0


def stored_fully_connected(op: NnieWeighted) -> StoredFullyConnected | None:
    """How a fully connected layer's codes are stored; None for other layers, and with 16 bits."""
    if op.weight.ndim != _OUTPUTS_BY_INPUTS or op.weight_scales[0].bits != _BYTE:
        return None
    return StoredFullyConnected(op, FullyConnectedLayout(*op.weight.shape))


def compare_fully_connected(
    layer: StoredFullyConnected, records: Sequence[WkRecord], real_weights: Callable[[], NDArray[np.float64]]
) -> LayerNumbers:
    """The codes of its records that are not compressed; biases and multiplier are not compared."""
    result = LayerNumbers(layer.op.layer, layer.op.read_as.z)
    (scale,) = layer.op.weight_scales
    for index, record in enumerate(records):
        if record.payload is None:
            continue
        result.records_read += 1
        outputs = layer.layout.outputs_of(index)
        read = layer.layout.read(record.payload, index)
        for stored, output in zip(
            read, range(outputs.start, outputs.stop), strict=False
        ):  # the last ones are missing
            ours = layer.op.weight[output]
            both = np.minimum(np.bincount(stored[: ours.size], minlength=256), np.bincount(ours, minlength=256))
            equal = int(both.sum())
            differing = ours.size - equal
            tied = min(differing, int(near_half(real_weights()[output], scale).sum())) if differing else 0
            result.codes.compared += ours.size
            result.codes.equal += equal
            result.codes.tied += tied
    return result
