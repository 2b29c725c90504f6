"""Face crop: numpy against OpenCV and exact fractions."""

from __future__ import annotations

from fractions import Fraction

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.errors import UsageError
from nnkit.postprocess import Box, FaceCrop, crop_face
from nnkit.program import Fixed


def photo_like(height: int, width: int, seed: int) -> np.ndarray:
    """Smooth shapes with noise and hard edges, uint8 [H, W]."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (max(2, height // 16), max(2, width // 16)), dtype=np.uint8)
    image = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    image[height // 3 : height // 2] = 255 - image[height // 3 : height // 2]
    return cv2.add(image, rng.integers(0, 20, (height, width), dtype=np.uint8))


def largest_difference(a: np.ndarray, b: np.ndarray) -> int:
    return int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max())


@pytest.mark.parametrize("side", [1, 2, 3, 31, 64, 100, 127, 128, 129, 200, 256, 333, 1000])
@pytest.mark.parametrize("size", [128, 96, 50])
def test_whole_frame_is_within_one_level_of_opencv(side: int, size: int) -> None:
    frame = photo_like(side, side, side)
    expected = cv2.resize(frame, (size, size), interpolation=cv2.INTER_LINEAR)
    assert largest_difference(crop_face(frame, Box(0, 0, side, side), FaceCrop(size=size)), expected) <= 1


def test_same_size_is_a_copy() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (300, 400), dtype=np.uint8)
    crop = crop_face(frame, Box(57, 91, 128, 128), FaceCrop())
    assert np.array_equal(crop, frame[91:219, 57:185])


@pytest.mark.parametrize("box", [Box(40, 30, 200, 200), Box(100, 20, 180, 300), Box(10, 90, 411, 255)])
def test_downscaled_box_is_within_one_level_of_opencv(box: Box) -> None:
    frame = photo_like(480, 640, 1)
    side = max(box.width, box.height)
    x, y = box.x + (box.width - side) // 2, box.y + (box.height - side) // 2
    margin = 200  # the expanded square may reach outside: the border repeats
    padded = cv2.copyMakeBorder(frame, margin, margin, margin, margin, cv2.BORDER_REPLICATE)
    square = padded[margin + y : margin + y + side, margin + x : margin + x + side]
    expected = cv2.resize(square, (128, 128), interpolation=cv2.INTER_LINEAR)
    assert largest_difference(crop_face(frame, box, FaceCrop()), expected) <= 1


@pytest.mark.parametrize("border", ["replicate", "fill"])
@pytest.mark.parametrize(("x", "y"), [(-20, -10), (100, 70), (30, 20), (-63, 100)])
def test_upscaled_box_reads_its_surroundings(border: str, x: int, y: int) -> None:
    """An enlarged crop equals the same region of the enlarged surroundings: it does not repeat its own edge."""
    frame = photo_like(120, 160, 2)
    factor, margin = 2, 100
    kind = cv2.BORDER_REPLICATE if border == "replicate" else cv2.BORDER_CONSTANT
    padded = cv2.copyMakeBorder(frame, margin, margin, margin, margin, kind, value=77)
    enlarged = cv2.resize(padded, None, fx=factor, fy=factor, interpolation=cv2.INTER_LINEAR)
    top, left = factor * (margin + y), factor * (margin + x)
    crop = crop_face(frame, Box(x, y, 64, 64), FaceCrop(border=border, fill=77))  # type: ignore[arg-type]
    assert largest_difference(crop, enlarged[top : top + 128, left : left + 128]) <= 1


@pytest.mark.parametrize("box", [Box(20, 40, 100, 60), Box(60, 10, 60, 100), Box(60, 10, 61, 100)])
def test_aspect_is_preserved_and_the_box_is_centred(box: Box) -> None:
    ramp = np.tile(np.arange(256, dtype=np.uint8), (256, 1))  # gray level = x
    params = FaceCrop(size=50, format=Fixed(16, 7))
    across = crop_face(ramp, box, params) / 128.0
    down = crop_face(np.ascontiguousarray(ramp.T), box, params) / 128.0
    step = 100 / 50
    assert np.allclose(np.diff(across, axis=1), step, atol=0.02)
    assert np.allclose(np.diff(down, axis=0), step, atol=0.02)
    assert across.mean() == pytest.approx(box.x + box.width / 2 - 0.5, abs=0.02)
    assert down.mean() == pytest.approx(box.y + box.height / 2 - 0.5, abs=0.02)


def exact_sample(frame: np.ndarray, box: Box, params: FaceCrop, row: int, column: int) -> Fraction:
    """One output sample in exact fractions, written from the definition alone."""
    height, width = frame.shape
    side = Fraction(max(box.width, box.height))

    def position(start: int, length: int, index: int) -> Fraction:
        return start + (length - side) / 2 + (index + Fraction(1, 2)) * side / params.size - Fraction(1, 2)

    def level(y: int, x: int) -> int:
        if params.border == "fill" and not (0 <= y < height and 0 <= x < width):
            return params.fill
        return int(frame[min(max(y, 0), height - 1), min(max(x, 0), width - 1)])

    y, x = position(box.y, box.height, row), position(box.x, box.width, column)
    y0, x0 = y.__floor__(), x.__floor__()
    dy, dx = y - y0, x - x0
    upper = level(y0, x0) * (1 - dx) + level(y0, x0 + 1) * dx
    lower = level(y0 + 1, x0) * (1 - dx) + level(y0 + 1, x0 + 1) * dx
    return upper * (1 - dy) + lower * dy


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_sample_is_within_five_eighths_of_the_exact_value(data: st.DataObject) -> None:
    """Half a level for the rounding, and 2 * 255 / 4096 for the two weights of 11 bits."""
    height, width = data.draw(st.integers(1, 24)), data.draw(st.integers(1, 24))
    frame = np.random.default_rng(data.draw(st.integers(0, 1000))).integers(0, 256, (height, width), dtype=np.uint8)
    box_width, box_height = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    box = Box(
        data.draw(st.integers(1 - box_width, width - 1)),
        data.draw(st.integers(1 - box_height, height - 1)),
        box_width,
        box_height,
    )
    border = data.draw(st.sampled_from(["replicate", "fill"]))
    params = FaceCrop(size=data.draw(st.integers(1, 12)), border=border, fill=data.draw(st.integers(0, 255)))
    crop = crop_face(frame, box, params)
    for row in range(params.size):
        for column in range(params.size):
            error = abs(Fraction(int(crop[row, column])) - exact_sample(frame, box, params, row, column))
            assert error <= Fraction(5, 8)


def test_fraction_bits_scale_the_levels() -> None:
    frame = photo_like(90, 90, 3)
    plain = crop_face(frame, Box(5, 5, 70, 70), FaceCrop(size=32))
    fine = crop_face(frame, Box(5, 5, 70, 70), FaceCrop(size=32, format=Fixed(16, 7)))
    assert np.abs(fine / 128.0 - plain).max() <= 0.5
    assert (
        crop_face(np.full((4, 4), 255, np.uint8), Box(0, 0, 4, 4), FaceCrop(size=4, format=Fixed(16, 7))).max()
        == 255 * 128
    )


@pytest.mark.parametrize(
    "number",
    [Fixed(16, 7), Fixed(16, 8), Fixed(16, 8, signed=False), Fixed(8, 0, signed=False), Fixed(8, -1)],
    ids=str,
)
def test_every_format_holds_what_quantisation_of_the_pixels_gives(number: Fixed) -> None:
    """A crop of the output's size is the frame itself: all gray levels, quantised as the network's input is."""
    frame = np.arange(256, dtype=np.uint8).reshape(16, 16)
    crop = crop_face(frame, Box(0, 0, 16, 16), FaceCrop(size=16, format=number))
    assert crop.dtype == number.dtype
    assert np.array_equal(crop, number.quantize(frame))


@pytest.mark.parametrize(
    ("frame", "box", "words"),
    [
        (np.zeros((4, 4), np.uint8), Box(0, 0, 0, 4), "box.width"),
        (np.zeros((4, 4), np.uint8), Box(0, 0, 4, -1), "box.height"),
        (np.zeros((4, 4), np.uint8), Box(0, 0, 16385, 1), "box.width"),
        (np.zeros((4, 4), np.uint8), Box(1.5, 0, 2, 2), "box.x"),  # type: ignore[arg-type]
        (np.zeros((4, 4), np.uint8), Box(4, 0, 4, 4), "outside the frame of 4 x 4"),
        (np.zeros((4, 4, 3), np.uint8), Box(0, 0, 4, 4), "[4, 4, 3]"),
        (np.zeros((4, 4), np.float32), Box(0, 0, 4, 4), "float32"),
        (np.zeros((0, 4), np.uint8), Box(0, 0, 4, 4), "4 x 0 pixels"),
    ],
)
def test_bad_input_is_refused(frame: np.ndarray, box: Box, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        crop_face(frame, box, FaceCrop())
    assert words in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    "bad",
    [
        {"size": 0},
        {"size": 1025},
        {"fill": 256},
        {"format": Fixed(16, 9)},
        {"format": Fixed(32, 0)},
        {"border": "mirror"},
    ],
)
def test_bad_parameters_are_refused(bad: dict) -> None:
    with pytest.raises(UsageError) as caught:
        FaceCrop(**bad)
    assert caught.value.where == f"face_crop.{next(iter(bad))}"


def test_narrow_integers_of_a_detector_do_not_overflow() -> None:
    frame = photo_like(100, 100, 4)
    wide = crop_face(frame, Box(10, 20, 70, 50), FaceCrop())
    narrow = crop_face(frame, Box(*np.array([10, 20, 70, 50], np.int8)), FaceCrop())
    assert np.array_equal(narrow, wide)
