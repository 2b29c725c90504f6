"""Resize: positions by the reading, compared with what ONNX Runtime picks and mixes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node, view_of
from onnx import helper

from nnkit.graph.read.resize import COORDINATES, read_resize
from nnkit.graph.refusal import Refused

NOTHING = np.zeros(0, np.float32)
SCALES = [(2.0, 2.0), (3.0, 1.5), (0.5, 0.7), (1.1, 1.0), (1.1, 2.0)]  # 6 rows times 1.1 are 6 rows


def _by_scales(scales: tuple[float, float], **attributes: Any) -> Any:
    return one_node(
        "Resize", (1, 2, 6, 7), {"roi": NOTHING, "scales": np.float32([1, 1, *scales])}, opset=19, **attributes
    )


@pytest.mark.parametrize("coordinates", [name for name in COORDINATES if name != "half_pixel_symmetric"])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("scales", SCALES)
def test_nearest_takes_what_onnx_runtime_takes(coordinates: str, rounding: str, scales: tuple[float, float]) -> None:
    case = _by_scales(scales, mode="nearest", coordinate_transformation_mode=coordinates, nearest_mode=rounding)
    resize = read_resize(case.view, case.node)
    taken = case.x[:, :, resize.nearest(2)[:, None], resize.nearest(3)[None, :]]
    np.testing.assert_array_equal(taken, case.y)


@pytest.mark.parametrize("scales", [(2.0, 2.0), (3.0, 0.5)])
def test_symmetric_half_pixels_are_plain_ones_where_the_sizes_are_whole(scales: tuple[float, float]) -> None:
    rows, columns = round(6 * scales[0]), round(8 * scales[1])
    case = one_node(
        "Resize",
        (1, 2, 6, 8),
        {"roi": NOTHING, "scales": np.float32([1, 1, *scales])},
        opset=19,
        mode="nearest",
        coordinate_transformation_mode="half_pixel_symmetric",
    )
    resize = read_resize(case.view, case.node)
    assert resize.after[2:] == (rows, columns)
    taken = case.x[:, :, resize.nearest(2)[:, None], resize.nearest(3)[None, :]]
    np.testing.assert_array_equal(taken, case.y)


@pytest.mark.parametrize("coordinates", [name for name in COORDINATES if name != "half_pixel_symmetric"])
@pytest.mark.parametrize("scales", SCALES)
def test_linear_mixes_at_the_positions(coordinates: str, scales: tuple[float, float]) -> None:
    case = _by_scales(scales, mode="linear", coordinate_transformation_mode=coordinates)
    resize = read_resize(case.view, case.node)
    y = case.x
    for axis in (2, 3):
        where = np.clip(resize.positions(axis), 0, resize.before[axis] - 1)
        near = np.floor(where).astype(int)
        far = np.minimum(near + 1, resize.before[axis] - 1)
        share = (where - near).reshape((-1, 1) if axis == 2 else (1, -1))
        y = np.take(y, near, axis) * (1 - share) + np.take(y, far, axis) * share
    np.testing.assert_allclose(y, case.y, atol=1e-5)


def test_by_sizes() -> None:
    sizes = np.array([1, 2, 12, 7], np.int64)
    case = one_node("Resize", (1, 2, 6, 7), {"sizes": sizes}, inputs=("x", "", "", "sizes"), mode="nearest", opset=17)
    resize = read_resize(case.view, case.node)
    assert (resize.scales, resize.whole_factors) == ((1.0, 1.0, 2.0, 1.0), (1, 1, 2, 1))
    assert resize.repeats(2)


def test_upsample_is_asymmetric_and_floors() -> None:
    case = one_node("Upsample", (1, 1, 3, 3), {"scales": np.float32([1, 1, 2, 3])}, opset=9)
    resize = read_resize(case.view, case.node)
    assert (resize.whole_factors, resize.repeats(2), resize.repeats(3)) == ((1, 1, 2, 3), True, True)
    np.testing.assert_array_equal(case.x.repeat(2, 2).repeat(3, 3), case.y)


@pytest.mark.parametrize(
    ("coordinates", "rounding", "repeats"),
    [("asymmetric", "floor", True), ("half_pixel", "round_prefer_floor", True), ("asymmetric", "ceil", False)],
)
def test_repeating(coordinates: str, rounding: str, repeats: bool) -> None:
    case = _by_scales((2.0, 2.0), mode="nearest", coordinate_transformation_mode=coordinates, nearest_mode=rounding)
    assert read_resize(case.view, case.node).repeats(2) == repeats
    assert np.array_equal(case.x.repeat(2, 2).repeat(2, 3), case.y) == repeats


def test_a_size_that_is_no_multiple_does_not_repeat() -> None:
    resize = read_resize((case := _by_scales((3.0, 1.5), mode="nearest")).view, case.node)
    assert resize.whole_factors is None
    assert not resize.repeats(3)


def test_computed_scales_are_refused() -> None:
    view = view_of([helper.make_node("Resize", ["x", "", "s"], ["y"])], {"x": (1, 1, 2, 2), "s": (4,)}, {}, ("y",))
    object.__setattr__(view, "shapes", {**view.shapes, "y": (1, 1, 4, 4)})
    with pytest.raises(Refused, match="its scales are not constant"):
        read_resize(view, view.nodes[0])
