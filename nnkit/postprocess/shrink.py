"""A gray frame to a smaller one: each value is the mean of a square of pixels, rounded half up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.postprocess._checks import require_range, require_storage
from nnkit.program.formats import Fixed

MAX_FACTOR, MAX_FRAC = 64, 8


@dataclass(frozen=True)
class Shrink:
    """Parameters. height, width: of the result. factor: side of the square. format: of the result's values.

    Raises UsageError for a value out of range.
    """

    height: int
    width: int
    factor: int
    format: Fixed

    def __post_init__(self) -> None:
        require_range("shrink.factor", self.factor, 1, MAX_FACTOR)
        require_storage("shrink.format", self.format, 0, MAX_FRAC)


def shrink(frame: NDArray[np.uint8], params: Shrink) -> NDArray[Any]:
    """[height * factor, width * factor] gray levels to [height, width] in `params.format`, saturated.

    Raises UsageError where the frame is of another size or type.
    """
    factor, wanted = params.factor, (params.height * params.factor, params.width * params.factor)
    if frame.shape != wanted or frame.dtype != np.uint8:
        raise UsageError(
            f"the frame is {frame.dtype} of shape {list(frame.shape)}",
            where="shrink",
            remedy=f"pass uint8 of shape {list(wanted)}",
        )
    squares = frame.astype(np.int64).reshape(params.height, factor, params.width, factor)
    area = factor * factor
    means = ((squares.sum(axis=(1, 3)) << params.format.frac + 1) + area) // (2 * area)
    shrunk: NDArray[Any] = np.minimum(means, params.format.qmax).astype(params.format.dtype)
    return shrunk
