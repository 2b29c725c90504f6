"""GAP8: power-of-two fixed point, 512 KiB of L2, weights streamed from L3."""

from nnkit_gap8.target import Gap8Target

TARGET = Gap8Target

__all__ = ["TARGET", "Gap8Target"]
