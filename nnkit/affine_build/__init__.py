"""From a recipe to affine integers, for every target that has them: options, corrections, `hp: auto`."""

CORRECTIONS = ("equalize", "balance", "bias_correction", "refine_ranges", "adaround")
"""Names that `calibration.corrections` may hold."""

LEGALISATION = ("fc_to_conv", "normalize_resize", "fuse_activation", "fuse_pool")
"""The quantiser's normal form; formats are chosen per fused layer."""
