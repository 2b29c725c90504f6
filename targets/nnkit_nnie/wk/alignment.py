"""Which records of a compiled network are which layer's: by their number, size and order, and by content in doubt.

The mapper writes the layers in the order of the network. What it writes for layers whose records are not known (a
BatchNorm that is not folded) lies between the others', and is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nnkit_nnie.gfpq.ops import NnieWeighted
from nnkit_nnie.wk.layout import RecordLayout, StoredNumbers
from nnkit_nnie.wk.records import WkRecord

_BYTE_CODES, _HALF_OF_INPUTS = 8, 8
_LIKE, _SAMPLED = 0.5, 3
"""Share of equal codes from which a window counts as the layer's own by content; records looked at for it."""


@dataclass(frozen=True, eq=False)
class StoredLayer:
    """A layer whose records are known: `layout` is that of each group. readable: whether their content is known."""

    op: NnieWeighted
    layout: RecordLayout
    readable: bool

    @property
    def records(self) -> int:
        """How many records it has."""
        return self.op.groups * self.layout.records

    def may_have(self, size_bytes: int) -> bool:
        """Whether its records may have this size: some of layers that stride are packed more densely."""
        return size_bytes == self.layout.size_bytes or (
            max(self.op.window.stride_h, self.op.window.stride_w) > 1 and size_bytes < self.layout.size_bytes
        )

    def checksum_known(self, size_bytes: int) -> bool:
        """Whether it is known of records of this size where their bytes lie, up to what a checksum can tell."""
        if self.layout.bits != _BYTE_CODES:
            return False
        if self._dense_rows:
            return size_bytes == self._dense_rows_bytes
        plain = (self.op.window.stride_h, self.op.window.stride_w) == (1, 1)
        return plain and self.op.caffe_type != "Deconvolution" and size_bytes == self.layout.size_bytes

    def reads(self, size_bytes: int) -> bool:
        """Whether records of this size can be taken apart, once they are unpacked."""
        if not self.readable:
            return False
        return size_bytes == self.layout.size_bytes or (self._dense_rows and size_bytes == self._dense_rows_bytes)

    @property
    def parity_axis(self) -> int:
        """The axis of the weights [O, I, kh, kw] whose odd indices lie in the second bytes of words."""
        return 2 if self._dense_rows else 1

    @property
    def _dense_rows(self) -> bool:
        """Whether its records hold two rows of the window side by side: small convolutions of stride 2."""
        window, convolves = self.op.window, self.op.caffe_type != "Deconvolution"
        return convolves and (window.stride_h, window.stride_w) == (2, 2) and self.layout.shape[1] <= _HALF_OF_INPUTS

    @property
    def _dense_rows_bytes(self) -> int | None:
        return self.layout.dense_rows_bytes if self.layout.bits == _BYTE_CODES else None

    def codes_of(self, record: int) -> NDArray[Any]:
        """Our codes of what one of its records holds."""
        outputs = self.outputs_of(record)
        return np.asarray(self.op.weight[outputs])

    def outputs_of(self, record: int) -> slice:
        """The outputs of the layer that one of its records holds."""
        group, inside = divmod(record, self.layout.records)
        first = group * self.layout.shape[0]
        part = self.layout.outputs_of(inside)
        return slice(first + part.start, first + part.stop)

    def read(self, payload: memoryview, record: int) -> StoredNumbers:
        """The numbers of one of its records."""
        if len(payload) != self.layout.size_bytes:
            return self.layout.read_dense_rows(payload, record % self.layout.records)
        return self.layout.read(payload, record % self.layout.records)

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """Bytes of each of its records, as laid out without compression."""
        return (self.layout.size_bytes,) * self.records

    def likeness(self, window: Sequence[WkRecord]) -> float:
        """Share of codes that are equal in a few records; 0 where they are not alike, or cannot be read."""
        equal = []
        for index, record in enumerate(window if self.readable else ()):
            if record.payload is not None and self.reads(record.size_bytes):
                equal.append(float(np.mean(self.read(record.payload, index).codes == self.codes_of(index))))
            if len(equal) == _SAMPLED:
                break
        share = float(np.mean(equal)) if equal else 0.0
        return share if share >= _LIKE else 0.0


class Placed(Protocol):
    """What `align` asks of a layer; see `StoredLayer`."""

    @property
    def records(self) -> int: ...

    @property
    def sizes_bytes(self) -> tuple[int, ...]: ...

    def likeness(self, window: Sequence[WkRecord]) -> float: ...


def stored_layer(op: NnieWeighted) -> StoredLayer | None:
    """How a layer's numbers are stored; None where that is not known at all."""
    weight, bits = op.weight, op.weight_scales[0].bits
    if op.caffe_type == "Deconvolution":
        inputs, outputs, high, wide = weight.shape
        return StoredLayer(op, RecordLayout(bits, (outputs, inputs // op.groups, high, wide)), readable=False)
    if weight.ndim != 4:
        return None
    outputs, inputs, high, wide = weight.shape
    return StoredLayer(op, RecordLayout(bits, (outputs // op.groups, inputs, high, wide)), readable=True)


def align(layers: Sequence[Placed], records: Sequence[WkRecord]) -> list[int | None]:
    """Index of each layer's first record; None where no records are the layer's.

    Layers lie in order and do not overlap; of all such choices, the one that gives the most records to layers, first
    by content, then by size. A window of records of one size that is not the layout's counts half: some are packed
    more densely.
    """
    sizes = np.asarray([record.size_bytes for record in records], np.int64)
    by_content = sum(layer.records for layer in layers) != len(records)
    best = np.zeros(len(records) + 1)
    rows = [best]
    for layer in layers:
        row = best.copy()
        if layer.records <= len(records):
            scores = _scores(layer, records, sizes, by_content=by_content)
            np.maximum(row[layer.records :], best[: scores.size] + scores, out=row[layer.records :])
        best = np.maximum.accumulate(row)
        rows.append(best)
    return _traced(layers, rows)


def _scores(
    layer: Placed, records: Sequence[WkRecord], sizes: NDArray[np.int64], *, by_content: bool
) -> NDArray[np.float64]:
    """What it is worth that the layer's records begin at each place."""
    count = layer.records
    changes = np.concatenate([[0], np.cumsum(sizes[1:] != sizes[:-1])])
    places = sizes.size - count + 1
    uniform = changes[count - 1 :] == changes[:places]
    exact = (np.lib.stride_tricks.sliding_window_view(sizes, count) == layer.sizes_bytes).all(axis=1)
    scores = np.where(exact, 1.0, np.where(uniform, 0.5, -np.inf)) * count
    if by_content:
        for place in np.flatnonzero(exact).tolist():
            scores[place] += 10 * count * layer.likeness(records[place : place + count])
    return np.asarray(scores, np.float64)


def _traced(layers: Sequence[Placed], rows: Sequence[NDArray[np.float64]]) -> list[int | None]:
    """The choices that led to the best score, from the last layer to the first."""
    places: list[int | None] = []
    end = rows[-1].size - 1
    for index in range(len(layers) - 1, -1, -1):
        row, before = rows[index + 1], rows[index]
        end = int(np.searchsorted(row, row[end]))
        if before[end] == row[end]:
            places.append(None)
        else:
            end -= layers[index].records
            places.append(end)
    return places[::-1]
