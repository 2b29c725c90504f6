"""Stats as bytes: exact, and damaged bytes are noticed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nnkit.calibrate import (
    CalibrationStats,
    Histogram,
    SkippedImage,
    ValueRange,
    stats_from_bytes,
    stats_to_bytes,
)


def _stats() -> CalibrationStats:
    generator = np.random.default_rng(2)
    histograms = {
        "a": Histogram().observed(generator.standard_normal(1000).astype(np.float32), "a"),
        "zero": Histogram().observed(np.zeros(4, np.float32), "zero"),
        "empty": Histogram(),
    }
    ranges = {"a": ValueRange(-0.1, 1 / 3, -math.pi, 1e-40), "zero": ValueRange(0.0, 0.0, 0.0, 0.0)}
    skipped = (SkippedImage("s1/ä.png", "empty"),)
    return CalibrationStats(
        ranges, "percentile", 12, "ab" * 32, percentile=99.99, skipped=skipped, histograms=histograms
    )


def test_round_trip_is_exact() -> None:
    stats = _stats()
    again = stats_from_bytes(stats_to_bytes(stats))
    assert again.ranges == stats.ranges
    assert (again.method, again.images, again.graph_digest) == (stats.method, stats.images, stats.graph_digest)
    assert (again.percentile, again.mse_bits, again.skipped) == (99.99, None, stats.skipped)
    for name, histogram in stats.histograms.items():
        assert np.array_equal(again.histograms[name].counts, histogram.counts)
        assert again.histograms[name].extremes == histogram.extremes
        assert again.histograms[name].exponent == histogram.exponent
        assert again.histograms[name].zeros == histogram.zeros
    assert again.digest == stats.digest
    assert stats_to_bytes(again) == stats_to_bytes(stats)


def test_digest_sees_every_part() -> None:
    stats = _stats()

    def digest(**changed: object) -> str:
        parts = {name: getattr(stats, name) for name in stats.__dataclass_fields__}
        return CalibrationStats(**{**parts, **changed}).digest  # type: ignore[arg-type]

    assert digest() == stats.digest
    assert digest(ranges=dict(reversed(stats.ranges.items()))) == stats.digest
    more = stats.histograms["a"].observed(np.array([0.25], np.float32), "a")
    digests = {
        stats.digest,
        digest(method="mse"),
        digest(images=13),
        digest(graph_digest="cd" * 32),
        digest(percentile=99.9),
        digest(mse_bits=8),
        digest(skipped=()),
        digest(histograms={}),
        digest(histograms={**stats.histograms, "a": more}),
        digest(ranges={**stats.ranges, "a": ValueRange(-0.1, math.nextafter(1 / 3, 1), -math.pi, 1e-40)}),
    }
    assert len(digests) == 10


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b"null", b'{"ranges": 3}', b"\xff\xfe", b"text"])
def test_damaged_bytes_are_a_value_error(damage: bytes) -> None:
    with pytest.raises(ValueError, match="not stored calibration stats"):
        stats_from_bytes(damage)


def test_a_cut_is_a_value_error() -> None:
    stored = stats_to_bytes(_stats())
    for length in range(0, len(stored), 97):
        with pytest.raises(ValueError, match="not stored calibration stats"):
            stats_from_bytes(stored[:length])
