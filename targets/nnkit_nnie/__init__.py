"""HiSilicon NNIE: networks as the vendor's mapper takes them, with GFPQ simulation and CPU segments in C."""

from nnkit_nnie.target import NnieTarget

TARGET = NnieTarget

__all__ = ["TARGET", "NnieTarget"]
