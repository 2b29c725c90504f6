"""What the kernels are cut for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CoreMachine:
    """The cores that share a kernel's work, and the memory that its scratch lies in.

    cores: parts that a kernel may be split into. scratch_bytes: of the region, for all parts together.
    """

    cores: int
    scratch_bytes: int
    scratch_region: str = "l1"
