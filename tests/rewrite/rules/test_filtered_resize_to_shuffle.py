"""filtered_resize_to_shuffle: wide filters by whole factors as one convolution, where few channels come of it."""

from __future__ import annotations

import pytest

RULE = "filtered_resize_to_shuffle"


@pytest.mark.parametrize(
    ("channels", "scales", "mode", "options", "expected"),
    [
        (3, (3, 3), "cubic", {}, ["Pad", "Conv", "DepthToSpace"]),
        (3, (2, 2), "cubic", {"coordinate_transformation_mode": "asymmetric"}, ["Pad", "Conv", "DepthToSpace"]),
        (3, (2, 2), "linear", {"antialias": 1}, ["Pad", "Conv", "DepthToSpace"]),
        (3, (2, 3), "cubic", {}, ["Resize"]),
        (3, (2.5, 2.5), "cubic", {}, ["Resize"]),
        (3, (0.5, 0.5), "cubic", {"antialias": 1}, ["Resize"]),
        (3, (2, 2), "cubic", {"exclude_outside": 1}, ["Resize"]),
        (3, (2, 2), "cubic", {"coordinate_transformation_mode": "align_corners"}, ["Resize"]),
        (3, (2, 2), "linear", {}, ["Resize"]),
        (17, (2, 2), "cubic", {}, ["Resize"]),
    ],
)
def test_whole_factors(graphs, channels, scales, mode, options, expected):
    net = graphs.Net(opset=19, x=(1, channels, 10, 8))
    resize = net.op("Resize", "x", "", net.const((1, 1, *scales)), mode=mode, **options)
    after, _ = graphs.apply(net.model(resize), RULE)
    assert graphs.ops(after) == expected
