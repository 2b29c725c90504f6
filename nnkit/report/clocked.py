"""Counted instructions as an estimate of time, at a clock that is stated."""

from __future__ import annotations

from collections.abc import Sequence

from nnkit.runner import Speed
from nnkit.verify.artifact import ArtifactVerdict


def clocked(artifacts: Sequence[ArtifactVerdict], clock_hz: int | None) -> list[Speed]:
    """Milliseconds of each runner that counts instructions: one a cycle, on one core, memory without delay."""
    if clock_hz is None:
        return []
    return [
        Speed(
            "time",
            1e3 * verdict.instructions / clock_hz,
            "ms",
            "estimate",
            f"the instructions of {verdict.how} at {clock_hz / 1e6:g} MHz, one a cycle on one core",
        )
        for verdict in artifacts
        if verdict.instructions is not None
    ]
