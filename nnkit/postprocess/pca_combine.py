"""Merging the two halves of a face after a split projection (`split_full_face_pca`), and scaling to the old length.

Each half gives 2 K + 2 F values: two shares of the K projected components, then the half's F features centred with
the left and with the right mean. Of the left half count the first share l_k and the left-centred features, of the
right half the second share r_k and the right-centred features:

    y_k = (l_k + r_k) * (sqrt(sum of all 2 F centred features squared) / sqrt(sum over k of (l_k + r_k)^2))

so y has the direction of the projection of the full face, and the length of its centred feature. Where either
length is 0, y is 0. Sums are taken in order, in double precision; `c/nnkit_pca_combine.c` computes the same numbers
wherever the compiler keeps IEEE doubles and fuses no multiplication with an addition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.postprocess._checks import require_range
from nnkit.program.formats import Fixed

MAX_VALUES = 1 << 20


@dataclass(frozen=True)
class PcaCombine:
    """Parameters, fixed when the code is generated.

    features: F, of one half of the face; components: K, of the projection. 2 K + 2 F is at most 1048576.
    format: of the values that a half gives: 8, 16 or 32 bits, -32 to 32 fraction bits.

    Raises UsageError for a value out of range.
    """

    features: int
    components: int
    format: Fixed

    def __post_init__(self) -> None:
        require_range("pca_combine.features", self.features, 1, MAX_VALUES)
        require_range("pca_combine.components", self.components, 1, MAX_VALUES)
        require_range("pca_combine values of a half", self.length, 4, MAX_VALUES)
        if self.format.bits not in (8, 16, 32) or not -32 <= self.format.frac <= 32:
            raise UsageError(
                f"{self.format} is not supported",
                where="pca_combine.format",
                remedy="use 8, 16 or 32 bits, and -32 to 32 fraction bits",
            )

    @property
    def length(self) -> int:
        """Values that one half gives: 2 K + 2 F."""
        return 2 * (self.components + self.features)

    @property
    def scale(self) -> float:
        """What a stored 1 stands for."""
        return 2.0**-self.format.frac


def combine_stored(params: PcaCombine, left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float32]:
    """The feature [K] float32 of two halves as the network stores them, [2 K + 2 F] each.

    Raises UsageError where a half has another shape or type.
    """
    for half in (left, right):
        if half.shape != (params.length,) or half.dtype != params.format.dtype:
            raise UsageError(
                f"the half is {half.dtype} of shape {list(half.shape)}",
                where="pca_combine",
                remedy=f"pass {params.format.dtype} of shape [{params.length}]: all outputs of the half, in order",
            )
    combined = combine_halves(left.astype(np.float64), right.astype(np.float64), params.components)
    return np.asarray(combined * params.scale, np.float32)


def combine_halves(left: NDArray[Any], right: NDArray[Any], components: int) -> NDArray[np.float64]:
    """The feature [K] of two halves [2 K + 2 F] of real numbers, K being `components`.

    Raises UsageError where the halves differ in shape or hold no features.
    """
    first, second = np.asarray(left, np.float64), np.asarray(right, np.float64)
    features = first.size // 2 - components
    if first.shape != second.shape or first.ndim != 1 or first.size % 2 or features < 1 or components < 1:
        raise UsageError(
            f"halves of shape {list(first.shape)} and {list(second.shape)} are not 2 x {components} components and "
            "features twice",
            where="pca_combine",
            remedy="pass all outputs of each half as one vector [2 K + 2 F]",
        )
    projected = first[:components] + second[components : 2 * components]
    start = 2 * components
    centred = np.concatenate([first[start : start + features], second[start + features :]])
    before, after = _squares(centred), _squares(projected)
    if before == 0.0 or after == 0.0:
        return np.zeros(components)
    return projected * (math.sqrt(before) / math.sqrt(after))


def _squares(values: NDArray[np.float64]) -> float:
    """The sum of squares, added in order, as the C code does."""
    return float(np.cumsum(values * values)[-1])
