"""Builds for GAP8's cluster: tiles in L1 for its eight cores, and what they cost."""
