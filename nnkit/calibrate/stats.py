"""CalibrationStats: what was observed of every value, in a form that merges and can be read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnkit.calibrate.observers import Histogram


@dataclass(frozen=True)
class ValueRange:
    """The range a method chose for one value, in real units; `observed_*` are the extremes seen."""

    low: float
    high: float
    observed_low: float
    observed_high: float

    @property
    def max_abs(self) -> float:
        """Largest magnitude of the chosen range."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class Limits:
    """The least and the greatest number that a value can hold, in real units; infinite where there is no limit."""

    low: float
    high: float


@dataclass(frozen=True)
class SkippedImage:
    """A calibration file that could not be used, within the share that the recipe allows."""

    name: str
    reason: str


@dataclass(frozen=True)
class MethodTrial:
    """A method whose ranges were tried: the outputs' SQNR with them, on inputs that the ranges did not come from."""

    method: str
    sqnr_db: float


@dataclass(frozen=True, eq=False)
class CalibrationStats:
    """Chosen ranges by value name, and how they came about.

    ranges: of every float value that depends on an input, inputs included; without headroom.
    method: `max`, `percentile`, `mse` or `kl`; `auto` where one of these is still to be chosen (the ranges are then
        those of `max`); `table` where a table was pinned; `formats` where the ranges are those of formats that are
        to stay as they are.
    images: samples that were run (for `table`: as the table says).
    graph_digest: SHA-256 of the ONNX bytes that were run (for `table`: as the table says).
    percentile: of the method `percentile`, also of a table that was made with it: such ranges clip on purpose.
    mse_bits: of `mse` and `kl`, the bits the ranges are meant for.
    skipped: files that were left out.
    histograms: by value name, where the method kept them (`percentile`, `mse`): `nnkit.calibrate.ranges` reads
        ranges for other numbers of bits from them.
    trials: what the method was chosen among.
    tuned: values whose ranges are as they are to be used: no target fits them to its formats anew.
    room: values whose ranges get room for what was not seen, where few of their numbers were, and how far each can
        go at all (`nnkit.calibrate.room`).
    """

    ranges: Mapping[str, ValueRange]
    method: str
    images: int
    graph_digest: str
    percentile: float | None = None
    mse_bits: int | None = None
    skipped: tuple[SkippedImage, ...] = ()
    histograms: Mapping[str, Histogram] = field(default_factory=dict, repr=False)
    trials: tuple[MethodTrial, ...] = ()
    tuned: frozenset[str] = frozenset()
    room: Mapping[str, Limits] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", MappingProxyType(dict(self.ranges)))
        object.__setattr__(self, "histograms", MappingProxyType(dict(self.histograms)))
        object.__setattr__(self, "room", MappingProxyType(dict(self.room)))

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything; does not depend on the order of the values."""
        head = (self.method, self.images, self.graph_digest, self.percentile, self.mse_bits, self.skipped)
        state = hashlib.sha256(repr(head).encode())
        for name in sorted(self.ranges):
            state.update(f"{name!r}:{self.ranges[name]!r}\n".encode())
        for name in sorted(self.histograms):
            histogram = self.histograms[name]
            state.update(f"{name!r}:{histogram!r}\n".encode())
            state.update(histogram.counts.astype("<i8").tobytes())
        if self.tuned:
            state.update(repr(sorted(self.tuned)).encode())
        if self.room:
            state.update(repr([(name, self.room[name]) for name in sorted(self.room)]).encode())
        return state.hexdigest()
