"""Calibration: what values a network takes on the user's images, as ranges for the quantiser."""

from nnkit.calibrate.kl import kl_range
from nnkit.calibrate.methods import Method, range_of, refit
from nnkit.calibrate.observers import Extremes, Histogram
from nnkit.calibrate.ranges import (
    max_range,
    mean_squared_error,
    mse_fraction_bits,
    mse_range,
    percentile_range,
)
from nnkit.calibrate.run import Job, Naming, Observations, calibrate, observe, sources_of, to_stats
from nnkit.calibrate.stats import CalibrationStats, SkippedImage, ValueRange
from nnkit.calibrate.storage import stats_from_bytes, stats_to_bytes
from nnkit.calibrate.table import read_table, write_table

__all__ = [
    "CalibrationStats",
    "Extremes",
    "Histogram",
    "Job",
    "Method",
    "Naming",
    "Observations",
    "SkippedImage",
    "ValueRange",
    "calibrate",
    "kl_range",
    "max_range",
    "mean_squared_error",
    "mse_fraction_bits",
    "mse_range",
    "observe",
    "percentile_range",
    "range_of",
    "read_table",
    "refit",
    "sources_of",
    "stats_from_bytes",
    "stats_to_bytes",
    "to_stats",
    "write_table",
]
