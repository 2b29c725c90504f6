"""Principal component projection y = (x - mean) matrix, and its file: `.npz` with `mean` [D], `matrix` [D, K]."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UsageError, UserFileError, cannot_be_written
from nnkit.reading import read_arrays
from nnkit.recipe.problems import shown

_REMEDY = "save it with numpy.savez(file, mean=..., matrix=...): mean [D], matrix [D, K], finite real numbers"


@dataclass(frozen=True, eq=False)
class Pca:
    """y = (x - mean) matrix: mean [D], matrix [D, K], float64."""

    mean: NDArray[np.float64]
    matrix: NDArray[np.float64]

    @property
    def features(self) -> int:
        """D, the values it takes."""
        return int(self.matrix.shape[0])

    @property
    def components(self) -> int:
        """K, the values it gives."""
        return int(self.matrix.shape[1])

    @property
    def weight(self) -> NDArray[np.float64]:
        """[K, D]: as a layer W x + b."""
        return self.matrix.T

    @property
    def bias(self) -> NDArray[np.float64]:
        """[K]: b = -mean matrix."""
        return -self.mean @ self.matrix


def read_pca(path: Path) -> Pca:
    """The projection in a file.

    Raises:
        UserFileError: missing, too large, not an `.npz`, or not such a projection.
    """
    arrays = read_arrays(path, what="the PCA file", remedy=_REMEDY)
    for key in ("mean", "matrix"):
        if key not in arrays:
            raise UserFileError(
                f"the PCA file has no array '{key}' (it has {shown(', '.join(arrays))})",
                where=str(path),
                remedy=_REMEDY,
            )
    mean, matrix = (np.asarray(arrays[key], np.float64) for key in ("mean", "matrix"))
    if matrix.ndim != 2 or mean.shape not in ((matrix.shape[0],), (1, matrix.shape[0])) or matrix.size == 0:
        reason = f"mean has shape {list(mean.shape)} and matrix {list(matrix.shape)}, which is no projection"
        raise UserFileError(reason, where=str(path), remedy=_REMEDY)
    if not (np.isfinite(mean).all() and np.isfinite(matrix).all()):
        raise UserFileError("the projection holds NaN or infinity", where=str(path), remedy=_REMEDY)
    return Pca(mean.reshape(-1), matrix)


def write_pca(path: Path, pca: Pca) -> None:
    """Write the file that `read_pca` reads; the same projection gives the same bytes.

    Raises:
        UserFileError: the file cannot be written.
    """
    try:
        np.savez(path, mean=pca.mean, matrix=pca.matrix)
    except OSError as error:
        raise cannot_be_written(path, error) from error


def fit_pca(features: NDArray[Any], components: int) -> Pca:
    """The projection onto the `components` directions of largest variance of features [N, D], N and D at least K.

    The matrix has orthonormal columns; of each, the largest magnitude is positive.

    Raises:
        UsageError: another shape, or more components than features or samples.
    """
    rows = np.asarray(features, np.float64)
    if rows.ndim != 2 or not 1 <= components <= min(rows.shape):
        raise UsageError(
            f"{components} components cannot be fitted to features of shape {list(rows.shape)}",
            where="fit_pca",
            remedy="give features [N, D] with N and D of at least that many",
        )
    mean = rows.mean(axis=0)
    _, _, directions = np.linalg.svd(rows - mean, full_matrices=False)
    matrix = directions[:components].T
    largest = matrix[np.abs(matrix).argmax(axis=0), np.arange(components)]
    return Pca(mean, matrix * np.sign(largest))
