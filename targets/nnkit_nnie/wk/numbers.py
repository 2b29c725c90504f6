"""A layer's numbers in a compiled network against ours: codes, integer biases and multipliers, counted.

The scale of a layer's input is the calibration's, so that the mapper has its own where it calibrated on other images.
It is read from the multiplier, and biases are compared with ours at that scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nnkit_nnie.gfpq.integer_numbers import bias_in_units, integer_biases, scales_of_multiplier
from nnkit_nnie.gfpq.number_format import Gfpq
from nnkit_nnie.wk.alignment import StoredLayer
from nnkit_nnie.wk.checksums import alive, compare_checksums
from nnkit_nnie.wk.layout import StoredNumbers, one_step_apart
from nnkit_nnie.wk.records import WkRecord

_ULPS = 16
_RELATIVE = _ULPS * 2.0**-24
"""How far the mapper's weights may be from ours where BatchNorm was folded in another order: float32 sums."""


@dataclass
class Count:
    """How many numbers were compared, how many are equal, and how many differ by the last bit of a folding alone."""

    compared: int = 0
    equal: int = 0
    tied: int = 0

    def add(self, equal: NDArray[np.bool_], tied: NDArray[np.bool_]) -> None:
        """Count more numbers. tied: of those that are not equal."""
        self.compared += int(equal.size)
        self.equal += int(equal.sum())
        self.tied += int((tied & ~equal).sum())

    @property
    def differing(self) -> int:
        """How many differ by more."""
        return self.compared - self.equal - self.tied


@dataclass
class LayerNumbers:
    """What the comparison of one layer came to. input_scales: those that its multipliers stand for."""

    layer: str
    ours: int
    codes: Count = field(default_factory=Count)
    biases: Count = field(default_factory=Count)
    multipliers: Count = field(default_factory=Count)
    checksums: Count = field(default_factory=Count)
    records_read: int = 0
    input_scales: set[int] = field(default_factory=set)

    @property
    def counts(self) -> tuple[tuple[str, Count], ...]:
        """The counts by name."""
        return (
            ("codes", self.codes),
            ("biases", self.biases),
            ("multipliers", self.multipliers),
            ("checksums", self.checksums),
        )


def compare_layer(
    layer: StoredLayer, records: Sequence[WkRecord], real_weights: Callable[[], NDArray[np.float64]]
) -> LayerNumbers:
    """Compare a layer's records. real_weights: the weights before quantisation, asked for where a code differs.

    A multiplier counts once for each group; it is equal where all records of the group have one, and where, with our
    scale of the group's weights, it tells the same scale of the input as most groups of the layer. Compressed records
    that could not be unpacked are compared by their checksums. Records of weights below what the mapper tells from
    zero are left out.
    """
    result = LayerNumbers(layer.op.layer, layer.op.read_as.z)
    if layer.readable:
        _compare_read(layer, records, real_weights, result)
    sums = compare_checksums(layer, records, result.input_scales)
    result.checksums.compared += sums.compared
    result.checksums.equal += sums.equal
    if sums.input_scale is not None:
        result.input_scales.add(sums.input_scale)
    return result


@dataclass(frozen=True)
class _Group:
    """The records of a group that could be unpacked, each with its place in the layer, and the scales that they tell.

    weights: our scale of the group's weights. s: that its multiplier stands for; None where it stands for none.
    """

    read: Sequence[tuple[int, StoredNumbers]]
    weights: Gfpq
    s: int | None

    @property
    def input_scale(self) -> int | None:
        """z of what the layer reads."""
        return None if self.s is None else -self.s - self.weights.z


def _compare_read(
    layer: StoredLayer,
    records: Sequence[WkRecord],
    real_weights: Callable[[], NDArray[np.float64]],
    result: LayerNumbers,
) -> None:
    """Add the records that could be unpacked."""
    a_group = layer.layout.records
    groups = []
    for number, scale in enumerate(layer.op.weight_scales):
        first = number * a_group
        read = [
            (index, layer.read(record.payload, index))
            for index, record in enumerate(records[first : first + a_group], first)
            if record.payload is not None and layer.reads(record.size_bytes) and alive(layer, index)
        ]
        if read:
            groups.append(_Group(read, scale, _scale_of(layer, read, scale.steps_per_octave)))
    told = Counter(group.input_scale for group in groups if group.input_scale is not None)
    result.input_scales.update(told)
    common = max(told, key=lambda scale: told[scale], default=None)
    for group in groups:
        _compare_group(layer, group, common, real_weights, result)


def _scale_of(layer: StoredLayer, read: Sequence[tuple[int, StoredNumbers]], steps: int) -> int | None:
    """The s of a group's multiplier; of the two that it may stand for, the one that gives more of our biases."""
    stored = {int(each) for _, numbers in read for each in numbers.multipliers}
    candidates = scales_of_multiplier(min(stored), steps) if len(stored) == 1 else ()
    return max(candidates, key=lambda each: _fitting_biases(layer, read, each, steps), default=None)


def _compare_group(
    layer: StoredLayer,
    group: _Group,
    common: int | None,
    real_weights: Callable[[], NDArray[np.float64]],
    result: LayerNumbers,
) -> None:
    """Add one group's records to the result. common: the scale of the input that most groups of the layer tell."""
    s, steps = group.s, group.weights.steps_per_octave
    equal_multiplier = s is not None and group.input_scale == common
    result.multipliers.add(np.asarray([equal_multiplier]), np.asarray([False]))
    for index, numbers in group.read:
        result.records_read += 1
        ours = layer.codes_of(index)
        equal = numbers.codes == ours
        tied = np.zeros(equal.shape, np.bool_)
        if not equal.all():
            outputs = layer.outputs_of(index)
            tied = one_step_apart(numbers.codes, ours, group.weights.bits) & near_half(
                real_weights()[outputs], group.weights
            )
        result.codes.add(equal, tied)
        bias = layer.op.bias[layer.outputs_of(index)]
        if s is None:
            result.biases.add(np.zeros(bias.shape, np.bool_), np.zeros(bias.shape, np.bool_))
            continue
        exact = bias_in_units(bias, s, steps)
        off = np.abs(numbers.biases - exact)
        result.biases.add(numbers.biases == integer_biases(bias, s, steps), off <= 0.5 + _RELATIVE * np.abs(exact))


def _fitting_biases(layer: StoredLayer, read: Sequence[tuple[int, StoredNumbers]], s: int, steps: int) -> int:
    """How many biases are ours by a scale."""
    return sum(
        int((numbers.biases == integer_biases(layer.op.bias[layer.outputs_of(index)], s, steps)).sum())
        for index, numbers in read
    )


def near_half(weights: NDArray[np.float64], scale: Gfpq) -> NDArray[np.bool_]:
    """Where the logarithm is so near to the middle of two codes that the last bits of the weight decide."""
    steps = scale.steps_per_octave
    with np.errstate(divide="ignore"):
        logarithm = steps * np.log2(np.abs(weights)) - scale.z
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(logarithm - np.floor(logarithm) - 0.5) <= _RELATIVE * steps / np.log(2.0))
