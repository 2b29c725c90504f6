"""The face crop in C against its definition in numpy."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from nnkit.errors import UsageError
from nnkit.postprocess import Box, FaceCrop, crop_face
from nnkit.program import Fixed

ERROR_BOX, ERROR_BOX_OUTSIDE = -3, -4


def expected_record(frame: np.ndarray, box: Box, params: FaceCrop) -> bytes:
    try:
        return struct.pack("=i", 0) + crop_face(frame, box, params).tobytes()
    except UsageError as error:
        return struct.pack("=i", ERROR_BOX_OUTSIDE if "outside" in error.reason else ERROR_BOX)


def random_boxes(rng: np.random.Generator, count: int, width: int, height: int) -> list[Box]:
    """Ordinary, tiny, partly outside, wholly outside, empty and enormous boxes."""
    boxes = []
    for kind in rng.integers(0, 10, count):
        if kind == 0:  # anything, mostly refused
            boxes.append(Box(*(int(v) for v in rng.integers(-40000, 40000, 4))))
        elif kind == 1:  # at the limits of what is accepted
            x, y = (int(v) for v in rng.integers(-16384, 200, 2))
            boxes.append(Box(x, y, int(rng.integers(16000, 16385)), int(rng.integers(16000, 16385))))
        else:
            w, h = (int(v) for v in rng.integers(0, 2 * max(width, height) if kind < 6 else 12, 2))
            boxes.append(Box(int(rng.integers(-w - 2, width + 2)), int(rng.integers(-h - 2, height + 2)), w, h))
    return boxes


@pytest.mark.parametrize(
    ("params", "boxes_per_frame"),
    [
        (FaceCrop(), 300),
        (FaceCrop(size=96, border="fill", fill=200, format=Fixed(16, 7)), 200),
        (FaceCrop(size=33, format=Fixed(8, -1)), 100),
        (FaceCrop(size=33, format=Fixed(8, 0, signed=False), border="fill", fill=255), 100),
        (FaceCrop(size=33, format=Fixed(16, 8, signed=False)), 100),
        (FaceCrop(size=33, format=Fixed(16, -8)), 100),
        (FaceCrop(size=7), 300),
        (FaceCrop(size=1, border="fill"), 300),
        (FaceCrop(size=1024, format=Fixed(16, 3)), 3),
    ],
    ids=str,
)
def test_generated_c_equals_numpy(params: FaceCrop, boxes_per_frame: int, run_driver) -> None:
    rng = np.random.default_rng(params.size)
    data, expected = [], []
    crops = 0
    for width, height, padding in [(324, 244, 0), (1024, 1024, 0), (1, 1, 3), (1, 50, 0), (37, 2, 27)]:
        stored = rng.integers(0, 256, (height, width + padding), dtype=np.uint8)
        frame = stored[:, :width]
        boxes = random_boxes(rng, boxes_per_frame, width, height)
        pixels = stored.tobytes()[: (width + padding) * (height - 1) + width]
        data.append(struct.pack("=4i", width, height, width + padding, len(boxes)) + pixels)
        data.extend(struct.pack("=4i", box.x, box.y, box.width, box.height) for box in boxes)
        records = [expected_record(frame, box, params) for box in boxes]
        crops += sum(len(record) > 4 for record in records)
        expected.extend(records)
    assert 0.2 < crops / len(expected) < 0.95  # both kinds of outcome are really there
    assert run_driver([params], "face_crop_driver.c", b"".join(data)) == b"".join(expected)


def test_c_refuses_bad_arguments_with_the_documented_codes(run_driver) -> None:
    lines = run_driver([FaceCrop(size=8)], "face_crop_contract_driver.c").decode().split("\n")[:-1]
    answers = {name: (int(status), touched) for name, status, touched in (line.split() for line in lines)}
    expected = {
        **dict.fromkeys(["null_frame", "null_pixels", "null_box", "null_scratch", "null_out"], -1),
        **dict.fromkeys(["no_width", "negative_height", "short_stride", "huge_width"], -2),
        **dict.fromkeys(["no_width_box", "negative_height_box", "huge_box", "far_box", "largest_int_box"], -3),
        **dict.fromkeys(["right_of_frame", "above_frame"], -4),
    }
    assert answers.pop("one_pixel_inside") == (0, "touched")
    assert answers == {name: (status, "untouched") for name, status in expected.items()}
