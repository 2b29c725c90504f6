"""Camera frame + detector box -> square network input, in fixed point.

The crop is the square around the box's centre whose side is the longer side of the box: the aspect is preserved.
It is sampled bilinearly at pixel centres:

    position(i) = corner + (i + 1/2) * side / size - 1/2,    corner = start + (length - side) / 2

The position is an exact fraction with denominator 2 * size. The weight of the upper one of two pixels is its
fractional part with 11 bits, half up; the four weights of a sample thus add up to 2**22 exactly, and there is one
rounding, half up, at the end. No low-pass filter precedes: a face much larger than the output is undersampled, as by
any plain bilinear resize. `c/nnkit_face_crop.c` computes the same integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.postprocess._checks import require_range, require_storage
from nnkit.program.formats import Fixed

WEIGHT_BITS = 11
MAX_SIZE = 1024
MAX_PIXELS = 16384  # frame side, box side, and |x|, |y| of a box: with MAX_SIZE it keeps the C side within 32 bits
MAX_FRAC = 8  # 255 * 2**8 is the last that fits 16 bits

PIXELS = Fixed(16, 0)  # gray levels as they are

Border: TypeAlias = Literal["replicate", "fill"]


@dataclass(frozen=True)
class Box:
    """A detector's box in pixels: top left corner and size. It may lie partly outside the frame."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class FaceCrop:
    """Parameters, fixed when the code is generated.

    size: side of the output in pixels, 1 to 1024.
    border: what a pixel outside the frame reads: `replicate` the nearest one inside, or `fill`.
    fill: gray level 0 to 255 for `border="fill"`.
    format: of the network's input: 8 or 16 bits, -8 to 8 fraction bits. The default is the pixels as they are, in
        int16. Levels beyond the format's largest value saturate.

    Raises UsageError for a value out of range.
    """

    size: int = 128
    border: Border = "replicate"
    fill: int = 0
    format: Fixed = PIXELS

    def __post_init__(self) -> None:
        require_range("face_crop.size", self.size, 1, MAX_SIZE)
        require_range("face_crop.fill", self.fill, 0, 255)
        require_storage("face_crop.format", self.format, -MAX_FRAC, MAX_FRAC)
        if self.border not in ("replicate", "fill"):
            raise UsageError(
                f"{self.border!r} is not a border rule",
                where="face_crop.border",
                remedy="choose replicate or fill",
            )


def crop_face(frame: NDArray[np.uint8], box: Box, params: FaceCrop) -> NDArray[Any]:
    """Crops and resizes: frame [H, W] uint8 gray -> [size, size] gray levels in `params.format`.

    Raises UsageError where the frame is not gray uint8 or too large, or where the box is empty, too large, or has no
    pixel in common with the frame.
    """
    _check_frame(frame)
    height, width = frame.shape
    _check_box(box, width, height)
    box = Box(int(box.x), int(box.y), int(box.width), int(box.height))  # a detector's int16 would overflow below
    side = max(box.width, box.height)
    left, right_weight = _positions(box.x, box.width, side, params.size)  # [size] each
    top, lower_weight = _positions(box.y, box.height, side, params.size)
    one = 1 << WEIGHT_BITS
    upper = _pixels(frame, top, left, params) * (one - right_weight)
    upper += _pixels(frame, top, left + 1, params) * right_weight
    lower = _pixels(frame, top + 1, left, params) * (one - right_weight)
    lower += _pixels(frame, top + 1, left + 1, params) * right_weight
    total = upper * (one - lower_weight)[:, None] + lower * lower_weight[:, None]  # [size, size], 22 fraction bits
    shift = 2 * WEIGHT_BITS - params.format.frac
    levels = (total + (1 << (shift - 1))) >> shift
    crop: NDArray[Any] = np.minimum(levels, params.format.qmax).astype(params.format.dtype)
    return crop


def _positions(start: int, length: int, side: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lower source pixel and weight of the upper one, for each output pixel of one axis: [size] int64 each."""
    index = np.arange(size, dtype=np.int64)
    numerator = (2 * start + length - side) * size + (2 * index + 1) * side - size
    pixel, remainder = np.divmod(numerator, 2 * size)
    return pixel, ((remainder << WEIGHT_BITS) + size) // (2 * size)


def _pixels(
    frame: NDArray[np.uint8], rows: NDArray[np.int64], columns: NDArray[np.int64], params: FaceCrop
) -> NDArray[np.int64]:
    """Gray levels at rows x columns by the border rule: [len(rows), len(columns)] int64."""
    height, width = frame.shape
    row = np.clip(rows, 0, height - 1)
    column = np.clip(columns, 0, width - 1)
    levels = frame[row[:, None], column[None, :]].astype(np.int64)
    if params.border == "fill":
        inside = (row == rows)[:, None] & (column == columns)[None, :]
        levels = np.where(inside, levels, params.fill)
    return levels


def _check_frame(frame: NDArray[np.uint8]) -> None:
    if frame.ndim != 2 or frame.dtype != np.uint8:
        raise UsageError(
            f"the frame is {frame.dtype} of shape {list(frame.shape)}",
            where="face_crop",
            remedy="pass a gray image, uint8 of shape [height, width]",
        )
    if not all(1 <= side <= MAX_PIXELS for side in frame.shape):
        raise UsageError(
            f"the frame has {frame.shape[1]} x {frame.shape[0]} pixels",
            where="face_crop",
            remedy=f"pass a frame with sides of 1 to {MAX_PIXELS} pixels",
        )


def _check_box(box: Box, frame_width: int, frame_height: int) -> None:
    require_range("box.width", box.width, 1, MAX_PIXELS)
    require_range("box.height", box.height, 1, MAX_PIXELS)
    require_range("box.x", box.x, -MAX_PIXELS, MAX_PIXELS)
    require_range("box.y", box.y, -MAX_PIXELS, MAX_PIXELS)
    inside_x = box.x < frame_width and box.x + box.width > 0
    inside_y = box.y < frame_height and box.y + box.height > 0
    if not (inside_x and inside_y):
        raise UsageError(
            f"the box at ({box.x}, {box.y}) of {box.width} x {box.height} pixels lies outside the frame "
            f"of {frame_width} x {frame_height}",
            where="face_crop",
            remedy="pass a box that shares at least one pixel with the frame",
        )
