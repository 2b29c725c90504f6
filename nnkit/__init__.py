"""nnkit: from a trained network to a verified release for an NPU, from one declarative recipe."""

__version__ = "0.1.0"
