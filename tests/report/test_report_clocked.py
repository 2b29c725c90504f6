"""Instructions as milliseconds, by hand."""

from __future__ import annotations

import pytest

from nnkit.report.clocked import clocked, with_times
from nnkit.runner import LayerTime
from nnkit.verify.artifact import ArtifactVerdict


def test_instructions_at_a_clock() -> None:
    runs = [ArtifactVerdict("host", "exact", 5), ArtifactVerdict("rv32", "exact", 5, instructions=300_000)]
    verdicts = [run.as_json() for run in runs]
    (speed,) = clocked(verdicts, 150_000_000)
    assert (speed.value, speed.unit, speed.kind) == (pytest.approx(2.0), "ms", "estimate")
    assert "150 MHz" in speed.how
    assert clocked(verdicts, None) == []


def test_layers_have_what_the_target_tells_and_else_their_instructions_at_the_clock() -> None:
    layers = [{"name": name, "instructions": count} for name, count in (("a", 300), ("b", 300), ("c", None))]
    first, second, third = with_times(layers, 150_000_000, {"b": LayerTime(0.5, 84_000)})
    assert first == layers[0] | {"milliseconds": pytest.approx(0.002)}
    assert second == layers[1] | {"milliseconds": 0.5, "cycles": 84_000}
    assert third == layers[2]
    assert with_times(layers, None, {}) == layers
