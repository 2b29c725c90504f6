"""The ranges that a quantiser took. A build's calibration table holds them, so that it gives the build again."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.calibrate.stats import CalibrationStats


@dataclass(frozen=True, eq=False)
class UsedRanges:
    """statistics: of all values, those that were taken as they were taken: for their own width, without headroom.

    read: the values whose ranges count. The others lie within a layer, or their format follows from others'.
    """

    statistics: CalibrationStats
    read: frozenset[str]
