"""Values of a program, and arrays of what they store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.program.formats import Fixed, Format

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Sequence[Array]
IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Tensor:
    """A value of the program. `shape` has no batch axis; `low`..`high` are the integers it can hold.

    The range is enforced by its producer's clip (or, for an input, by quantisation), so proofs may rely on it.
    A float tensor has none: both are 0.
    """

    name: str
    shape: tuple[int, ...]
    format: Format
    low: int = 0
    high: int = 0

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1

    @property
    def channels(self) -> int:
        """The size of the first axis; 1 where the value is one number, which has none."""
        return self.shape[0] if self.shape else 1

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor as stored."""
        return self.elements * self.format.bytes

    @property
    def fixed(self) -> Fixed:
        """The format, for tensors of fixed-point programs. Raises TypeError for any other."""
        if not isinstance(self.format, Fixed):
            raise TypeError(f"tensor {self.name!r} is {self.format}, not fixed point")
        return self.format


Tensors: TypeAlias = Mapping[str, Tensor]
"""Tensors by name."""
