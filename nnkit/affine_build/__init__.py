"""From a recipe to affine integers, for every target that has them: options, corrections, `hp: auto`."""

CORRECTIONS = ("equalize", "balance", "bias_correction", "refine_ranges", "adaround")
"""Names that `calibration.corrections` may hold."""

DEFAULT_CORRECTIONS = ("bias_correction",)
"""Those of a recipe that names none."""
