"""How records hold the numbers of a convolution, and taking them apart.

8 bits: a record for 4 outputs: 4 x {int32 bias, u32 multiplier, 0, 0}, then codes [kh][kw][I / 16][4][16], I rounded
up; a code is GFPQ's byte.

Of convolutions of stride 2 with at most 8 inputs two rows lie side by side: codes [kh / 2][kw][4][8 inputs][2 rows].

16 bits: a record for an output: 64 bytes that begin with bias and multiplier, then codes in groups of 8 inputs. The N
groups in the order [kh][kw][I / 8] are dealt on 4 lanes, group n to slot n mod N/4 of lane n div N/4, N rounded up;
stored as [slot][4 lanes][8]. A code is sign << 15 | k << 2.

Source: files that the vendor's mapper made. That the 64 bytes of 16 bits are laid out like those of 8 was not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit_nnie.gfpq.number_format import Gfpq, GfpqBits

_HEAD_BYTES, _WORDS = 64, 4
_OUTPUTS_8, _INPUTS_8 = 4, 16
_LANES_16, _INPUTS_16 = 4, 8
_SIGN_16, _SHIFT_16 = 1 << 15, 2


@dataclass(frozen=True, eq=False)
class StoredNumbers:
    """One record's numbers. codes: GFPQ's stored values [outputs, I, kh, kw]; biases, multipliers: one an output."""

    codes: NDArray[np.int64]
    biases: NDArray[np.int64]
    multipliers: NDArray[np.int64]


@dataclass(frozen=True)
class RecordLayout:
    """Records of one convolution without groups (or of one of its groups). shape: [O, I, kh, kw] of the weights."""

    bits: GfpqBits
    shape: tuple[int, int, int, int]

    @property
    def outputs_a_record(self) -> int:
        """How many outputs a record holds, the last one fewer."""
        return _OUTPUTS_8 if self.bits == 8 else 1

    @property
    def records(self) -> int:
        """How many records it has."""
        return -(-self.shape[0] // self.outputs_a_record)

    @property
    def size_bytes(self) -> int:
        """Bytes of a record, unpacked."""
        _, inputs, high, wide = self.shape
        if self.bits == 8:
            return _HEAD_BYTES * (1 + high * wide * -(-inputs // _INPUTS_8))
        return _HEAD_BYTES * (1 + self._slots)

    @property
    def dense_rows_bytes(self) -> int:
        """Bytes of a record of at most 8 inputs whose rows lie side by side in pairs, unpacked; of 8 bits."""
        _, _, high, wide = self.shape
        return _HEAD_BYTES * (1 + -(-high // 2) * wide)

    @property
    def _slots(self) -> int:
        _, inputs, high, wide = self.shape
        return -(-high * wide * -(-inputs // _INPUTS_16) // _LANES_16)

    def outputs_of(self, record: int) -> slice:
        """The outputs that a record holds."""
        first = record * self.outputs_a_record
        return slice(first, min(first + self.outputs_a_record, self.shape[0]))

    def read(self, payload: memoryview, record: int) -> StoredNumbers:
        """The numbers of a record, whose payload has `size_bytes` bytes."""
        live = self.outputs_of(record)
        codes = self._codes_8(payload) if self.bits == 8 else self._codes_16(payload)
        return self._numbers(payload, live.stop - live.start, codes)

    def read_dense_rows(self, payload: memoryview, record: int) -> StoredNumbers:
        """The same of a record of `dense_rows_bytes`: input i of row y lies at byte 2 i + y % 2 of an output's 16."""
        live = self.outputs_of(record)
        _, _, high, wide = self.shape
        stored = np.frombuffer(payload[_HEAD_BYTES:], np.uint8).astype(np.int64)
        pairs = stored.reshape(-1, wide, _OUTPUTS_8, _INPUTS_8 // 2, 2).transpose(2, 3, 0, 4, 1)
        codes = pairs.reshape(_OUTPUTS_8, _INPUTS_8 // 2, -1, wide)[:, :, :high]
        return self._numbers(payload, live.stop - live.start, codes)

    def _numbers(self, payload: memoryview, count: int, codes: NDArray[np.int64]) -> StoredNumbers:
        head = np.frombuffer(payload[:_HEAD_BYTES], "<u4").reshape(-1, _WORDS)[:count]
        biases = head[:, 0].astype("<u4").view("<i4").astype(np.int64)
        return StoredNumbers(codes[:count, : self.shape[1]], biases, head[:, 1].astype(np.int64))

    def _codes_8(self, payload: memoryview) -> NDArray[np.int64]:
        _, inputs, high, wide = self.shape
        blocks = -(-inputs // _INPUTS_8)
        stored = np.frombuffer(payload[_HEAD_BYTES:], np.uint8).astype(np.int64)
        ordered = stored.reshape(high, wide, blocks, _OUTPUTS_8, _INPUTS_8).transpose(3, 2, 4, 0, 1)
        return ordered.reshape(_OUTPUTS_8, blocks * _INPUTS_8, high, wide)

    def _codes_16(self, payload: memoryview) -> NDArray[np.int64]:
        _, inputs, high, wide = self.shape
        blocks = -(-inputs // _INPUTS_16)
        stored = np.frombuffer(payload[_HEAD_BYTES:], "<u2").astype(np.int64)
        in_order = stored.reshape(self._slots, _LANES_16, _INPUTS_16).transpose(1, 0, 2).reshape(-1, _INPUTS_16)
        words = in_order[: high * wide * blocks].reshape(high, wide, blocks, _INPUTS_16).transpose(2, 3, 0, 1)
        codes = np.where(words & _SIGN_16, Gfpq(16, 0).zero, 0) | ((words & (_SIGN_16 - 1)) >> _SHIFT_16)
        return np.asarray(codes, np.int64).reshape(1, blocks * _INPUTS_16, high, wide)


def one_step_apart(stored: NDArray[Any], ours: NDArray[Any], bits: GfpqBits) -> NDArray[np.bool_]:
    """Which codes are of one sign and one step of the logarithm apart."""
    sign = Gfpq(bits, 0).zero
    first, second = stored.astype(np.int64), ours.astype(np.int64)
    return np.asarray(((first ^ second) < sign) & (np.abs(first - second) == 1))
