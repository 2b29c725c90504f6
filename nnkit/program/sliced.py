"""Elements by constant steps along every axis: what a slice is, for every arithmetic."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

ScalarT = TypeVar("ScalarT", bound=np.generic)


def sliced(
    values: NDArray[ScalarT], starts: tuple[int, ...], steps: tuple[int, ...], shape: tuple[int, ...]
) -> NDArray[ScalarT]:
    """From [N, ...] the elements from `starts` on by `steps`, as many as `shape` says: [N, *shape].

    starts, steps, shape: of every axis but the first. A step may be negative.
    """
    indices: list[NDArray[Any]] = [np.arange(len(values))]
    indices += [start + step * np.arange(size) for start, step, size in zip(starts, steps, shape, strict=True)]
    return np.asarray(values[np.ix_(*indices)])
