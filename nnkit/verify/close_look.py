"""The first inputs looked at closely: every layer by itself, and how its float values are spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.stats import ValueRange
from nnkit.distance import Distance, DistanceSum
from nnkit.program import OpBase, Program
from nnkit.simulate import simulate_op
from nnkit.verify.layer_errors import as_stored

CLOSE_SAMPLES = 2
"""How many inputs: enough to tell layers apart, and little beside the simulation of all."""

BINS = 64
_MARGIN = 1.25  # of the largest magnitude that calibration saw; what lies beyond is in the outer bins


@dataclass(frozen=True)
class ValueCounts:
    """A histogram: `counts` of values in equal bins from `low` to `high`, in real units."""

    low: float
    high: float
    counts: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        """For the page."""
        return {"low": self.low, "high": self.high, "counts": list(self.counts)}


class CloseLook:
    """What was seen of the layers whose output the float network has, on the first inputs.

    ranges: what calibration saw, by value name; layers without one get no histogram.
    """

    def __init__(self, program: Program, ops: tuple[OpBase, ...], ranges: Mapping[str, ValueRange]) -> None:
        known = {op.output for op in ops} | set(program.inputs)
        self._program, self._ops = program, ops
        self._isolated = {op.name: DistanceSum() for op in ops if set(op.inputs) <= known}
        self._edges: dict[str, NDArray[np.float64]] = {}
        self._counts: dict[str, NDArray[np.int64]] = {}
        for op in ops:
            seen = ranges.get(op.output)
            if seen is None:
                continue
            widest = _MARGIN * max(abs(seen.observed_low), abs(seen.observed_high)) or 1.0
            self._edges[op.name] = np.linspace(-widest if seen.observed_low < 0 else 0.0, widest, BINS + 1)
            self._counts[op.name] = np.zeros(BINS, np.int64)

    def add(self, real: Mapping[str, NDArray[Any]]) -> None:
        """Take one input. real: the float network's values by name, its inputs among them."""
        tensors = self._program.tensors
        for op in self._ops:
            expected = real[op.output]
            if op.name in self._isolated:
                given = [as_stored(tensors[name], real[name]) for name in op.inputs]
                stored = simulate_op(self._program, op, given)
                self._isolated[op.name].add(tensors[op.output].format.dequantize(stored), expected)
            if op.name in self._edges:
                edges = self._edges[op.name]
                inside = np.clip(np.asarray(expected, np.float64).ravel(), edges[0], edges[-1])
                self._counts[op.name] += np.histogram(inside, edges)[0]

    def merge(self, other: CloseLook) -> None:
        """Take what another one has taken, of inputs that come after these."""
        for name, sums in other._isolated.items():
            self._isolated[name].merge(sums)
        for name, counts in other._counts.items():
            self._counts[name] += counts

    def isolated(self) -> dict[str, Distance]:
        """By op name: its output's error where its inputs are the float network's."""
        return {name: sums.result() for name, sums in self._isolated.items()}

    def histograms(self) -> dict[str, ValueCounts]:
        """By op name: its float values."""
        return {
            name: ValueCounts(float(edges[0]), float(edges[-1]), tuple(int(c) for c in self._counts[name]))
            for name, edges in self._edges.items()
        }
