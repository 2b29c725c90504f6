"""CalibrationStats as bytes, exactly and without pickle, for the cache of stage results."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from nnkit.calibrate.observers import BINS, Extremes, Histogram
from nnkit.calibrate.stats import CalibrationStats, SkippedImage, ValueRange


def stats_to_bytes(stats: CalibrationStats) -> bytes:
    """JSON, UTF-8; the same stats give the same bytes. Floats round-trip exactly."""
    document = {
        "ranges": {name: asdict(value_range) for name, value_range in stats.ranges.items()},
        "method": stats.method,
        "images": stats.images,
        "graph_digest": stats.graph_digest,
        "percentile": stats.percentile,
        "mse_bits": stats.mse_bits,
        "skipped": [asdict(image) for image in stats.skipped],
        "histograms": {name: histogram_to_json(histogram) for name, histogram in stats.histograms.items()},
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def stats_from_bytes(stored: bytes) -> CalibrationStats:
    """The stats that `stats_to_bytes` wrote.

    Raises:
        ValueError: the bytes were not written by it, or are damaged.
    """
    try:
        document = json.loads(stored)
        ranges = {name: ValueRange(**entry) for name, entry in document.pop("ranges").items()}
        skipped = tuple(SkippedImage(**image) for image in document.pop("skipped"))
        histograms = {name: histogram_from_json(packed) for name, packed in document.pop("histograms").items()}
        return CalibrationStats(ranges=ranges, skipped=skipped, histograms=histograms, **document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"these are not stored calibration stats: {error}") from error


def histogram_to_json(histogram: Histogram) -> dict[str, Any]:
    """A histogram as JSON data, exactly."""
    filled = np.flatnonzero(histogram.counts)
    first, end = (int(filled[0]), int(filled[-1]) + 1) if filled.size else (0, 0)
    extremes = histogram.extremes
    return {
        "low": extremes.low if extremes.count else None,
        "high": extremes.high if extremes.count else None,
        "count": extremes.count,
        "exponent": histogram.exponent,
        "zeros": histogram.zeros,
        "first_bin": first,
        "counts": histogram.counts[first:end].tolist(),
    }


def histogram_from_json(packed: dict[str, Any]) -> Histogram:
    """What `histogram_to_json` gave. Raises KeyError, TypeError or ValueError for anything else."""
    kept = packed["counts"]
    counts = np.zeros(BINS, dtype=np.int64)
    counts[packed["first_bin"] : packed["first_bin"] + len(kept)] = kept
    extremes = Extremes(packed["low"], packed["high"], packed["count"]) if packed["count"] else Extremes()
    return Histogram(extremes, packed["exponent"], counts, packed["zeros"])
