"""Compressed records that cannot be unpacked: whether they hold our numbers, by their checksum.

The last two bytes of a record are the exclusive or of the 16-bit words of its content, unpacked. Codes are bytes, so
that a code's place counts by whether its byte is the first or the second of a word: in a plain layout by its input,
in the denser one of small layers of stride 2 by its row.

A record of other numbers has our checksum by a chance of 2^-16. Where no record of a layer tells the scale of its
input, the scale is that with which most of its records agree, if that is at least half of them.

Source: files that the vendor's mapper made; the records that are not compressed have this checksum in each case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit_nnie.gfpq.integer_numbers import multiplier
from nnkit_nnie.gfpq.number_format import SMALLEST_MAGNITUDE, Gfpq
from nnkit_nnie.wk.alignment import StoredLayer
from nnkit_nnie.wk.records import WkRecord

_SCALES = range(-400, 101)  # of inputs: magnitudes from 1e-5 to 1e4 and more
_WORD, _LARGEST = 0xFFFFFFFF, 2.0**62
_MANY = 2  # records from which a scale is believed


@dataclass(frozen=True)
class Checksums:
    """compared, equal: records. input_scale: of the layer's input, as known or as found; None where neither."""

    compared: int
    equal: int
    input_scale: int | None


def compare_checksums(layer: StoredLayer, records: Sequence[WkRecord], known: set[int]) -> Checksums:
    """The compressed ones among a layer's records. known: scales of its input that other records have told.

    Records of 16 bits and layouts that were not seen are left out, and so are channels whose weights are smaller than
    what the mapper tells from zero: what it writes of them is not known.
    """
    indices = [
        index
        for index, record in enumerate(records)
        if record.payload is None and layer.checksum_known(record.size_bytes) and alive(layer, index)
    ]
    if not indices:
        return Checksums(0, 0, None)
    scales = np.asarray(sorted(known) if known else _SCALES, np.int64)
    agree = np.zeros(scales.size, np.int64)
    for index in indices:
        agree += _checksums(layer, index, scales) == records[index].checksum
    best = int(np.argmax(agree))
    equal = int(agree[best])
    if not known and (len(indices) < _MANY or 2 * equal < len(indices)):
        own = int(agree[np.flatnonzero(scales == layer.op.read_as.z)].sum())
        return Checksums(len(indices), own, layer.op.read_as.z if own else None)
    return Checksums(len(indices), equal, int(scales[best]))


def alive(layer: StoredLayer, index: int) -> bool:
    """Whether a record's weights are larger than what the mapper tells from zero."""
    scale = _scale(layer, index)
    return scale.z > Gfpq.for_magnitude(scale.bits, SMALLEST_MAGNITUDE).z


def _scale(layer: StoredLayer, index: int) -> Gfpq:
    return layer.op.weight_scales[index // layer.layout.records]


def _checksums(layer: StoredLayer, index: int, scales: NDArray[np.int64]) -> NDArray[np.int64]:
    """What a record's checksum is by our numbers, for each scale of the input."""
    codes = layer.codes_of(index).astype(np.int64) ^ Gfpq(8, 0).zero  # what is not there counts as zero's code
    places = np.indices(codes.shape)[layer.parity_axis] % 2
    own = int(np.bitwise_xor.reduce((codes << (8 * places)).ravel()))
    weights = _scale(layer, index)
    result = np.full(scales.size, own, np.int64)
    s = -(weights.z + scales)
    multipliers = np.asarray([multiplier(int(each), weights.steps_per_octave) & _WORD for each in s], np.int64)
    for bias in layer.op.bias[layer.outputs_of(index)]:
        units = np.clip(bias * np.exp2(s / weights.steps_per_octave), -_LARGEST, _LARGEST)
        result ^= _folded(np.rint(units).astype(np.int64) & _WORD) ^ _folded(multipliers)
    return result


def _folded(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exclusive or of the halves of 32-bit words."""
    return np.asarray((words & 0xFFFF) ^ (words >> 16), np.int64)
