"""The affine scheme on GAP8: 8-bit integers with a multiplier for each output channel."""
