"""WarpPerspective: an image seen through a projective matrix, sampled on the output's pixel grid.

Pixel (row i, column j) has its centre at (x, y) = (j, i), as in OpenCV's warpPerspective. With direction `inverse`
the matrix maps output coordinates to input coordinates; with `forward` it maps input to output and is inverted first.
Output pixel (x, y) reads the input at (X / W, Y / W), where (X, Y, W) = M (x, y, 1); where W is 0, and for a singular
`forward` matrix, it reads (0, 0). Coordinates are computed in float64 from the float32 matrix.

`bilinear` weighs the four neighbours with float32 weights; `nearest` takes the pixel at the coordinates rounded half
to even. Pixels outside are border_value (`constant`), or those of the nearest edge (`replicate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape, four_dimensional

DIRECTIONS = ("forward", "inverse")
INTERPOLATIONS = ("nearest", "bilinear")
BORDERS = ("constant", "replicate")
# Coordinates beyond it are outside every image and would not fit an integer.
FAR = float(2**30)


@dataclass(frozen=True)
class WarpPerspective(CustomOp):
    """Inputs x [1, C, H, W] and matrix, 9 values by rows, or 8 where the last one is 1. Output [1, C, out_h, out_w].

    out_h, out_w: size of the output, 0: that of the input.
    """

    op_type: ClassVar[str] = "WarpPerspective"
    inputs: ClassVar[tuple[str, ...]] = ("x", "matrix")

    direction: str = "inverse"
    interpolation: str = "bilinear"
    border: str = "constant"
    border_value: float = 0.0
    out_h: int = 0
    out_w: int = 0

    def __post_init__(self) -> None:
        for name, allowed in (("direction", DIRECTIONS), ("interpolation", INTERPOLATIONS), ("border", BORDERS)):
            value = getattr(self, name)
            self.require(value in allowed, f"has no {name} '{value}' ({', '.join(allowed)})")
        self.require(self.out_h >= 0 and self.out_w >= 0, "cannot have a negative output size")

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        channels, height, width = four_dimensional(type(self), input_shapes[0])
        size = int(np.prod(input_shapes[1]))
        self.require(size in (8, 9), f"needs a matrix of 9 or 8 values, not {list(input_shapes[1])}")
        return ((1, channels, self.out_h or height, self.out_w or width),)

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        shape = self.output_shapes([array.shape for array in arrays])[0]
        x = np.asarray(arrays[0], np.float32)[0]
        values = np.asarray(arrays[1], np.float32).reshape(-1)
        matrix = np.append(values.astype(np.float64), 1.0)[:9].reshape(3, 3)
        if self.direction == "forward":
            matrix = _inverse(matrix)
        columns, rows = _sources(matrix, shape[2], shape[3])
        if self.interpolation == "nearest":
            y = self._pixels(x, np.rint(rows), np.rint(columns))
        else:
            top, left = np.floor(rows), np.floor(columns)
            down, right = (rows - top).astype(np.float32), (columns - left).astype(np.float32)
            one = np.float32(1)
            upper = (one - right) * self._pixels(x, top, left) + right * self._pixels(x, top, left + 1)
            lower = (one - right) * self._pixels(x, top + 1, left) + right * self._pixels(x, top + 1, left + 1)
            y = (one - down) * upper + down * lower
        return (np.ascontiguousarray(y.reshape(shape), np.float32),)

    def _pixels(self, x: FloatArray, rows: NDArray[np.float64], columns: NDArray[np.float64]) -> FloatArray:
        """x [C, H, W] at whole coordinates [h, w] -> [C, h, w]."""
        _, height, width = x.shape
        row = np.clip(rows, 0, height - 1)
        column = np.clip(columns, 0, width - 1)
        pixels = x[:, row.astype(np.int64), column.astype(np.int64)]
        if self.border == "replicate":
            return pixels
        inside = (row == rows) & (column == columns)
        return np.where(inside, pixels, np.float32(self.border_value))


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse by cofactors; zeros for a singular matrix."""
    cofactors = np.stack(
        [
            np.cross(matrix[1], matrix[2]),
            np.cross(matrix[2], matrix[0]),
            np.cross(matrix[0], matrix[1]),
        ],
        axis=1,
    )
    determinant = float(matrix[0] @ cofactors[:, 0])
    return cofactors / determinant if determinant != 0 else np.zeros((3, 3))


def _sources(matrix: NDArray[np.float64], height: int, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Input (x, y) of every output pixel, [height, width] each, limited to what an integer holds; NaN becomes 0."""
    y, x = np.meshgrid(np.arange(height, dtype=np.float64), np.arange(width, dtype=np.float64), indexing="ij")
    across, down, depth = (row[0] * x + row[1] * y + row[2] for row in matrix)
    inverse = np.divide(1.0, depth, out=np.zeros_like(depth), where=depth != 0)
    with np.errstate(invalid="ignore", over="ignore"):
        points = (across * inverse, down * inverse)
    limited = [np.clip(np.nan_to_num(point, nan=0.0, posinf=FAR, neginf=-FAR), -FAR, FAR) for point in points]
    return limited[0], limited[1]
