"""Defaults that a recipe or an option and functions of the library share; a recipe's others stand with their keys."""

from __future__ import annotations

from typing import Final

PERCENTILE = 99.99
"""Percent of the values that the range of `percentile` calibration holds."""

HEADROOM = 1.25
"""Factor on calibrated ranges of 16-bit values, for what calibration did not see."""

FALSE_POSITIVE_RATE = 0.001
"""Share of pairs of two people that may pass, where recall is told."""

FLOAT_INPUTS: Final = "float_inputs"
"""The correction that computes small first layers in floating point; trials of others have it, too."""

FLOAT_OUTPUTS: Final = "float_outputs"
"""The correction that computes small last layers in floating point; trials of others have it, too."""
