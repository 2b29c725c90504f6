"""Instructions as milliseconds, by hand."""

from __future__ import annotations

import pytest

from nnkit.report.clocked import clocked
from nnkit.verify.artifact import ArtifactVerdict


def test_instructions_at_a_clock() -> None:
    verdicts = [ArtifactVerdict("host", "exact", 5), ArtifactVerdict("rv32", "exact", 5, instructions=300_000)]
    (speed,) = clocked(verdicts, 150_000_000)
    assert (speed.value, speed.unit, speed.kind) == (pytest.approx(2.0), "ms", "estimate")
    assert "150 MHz" in speed.how
    assert clocked(verdicts, None) == []
