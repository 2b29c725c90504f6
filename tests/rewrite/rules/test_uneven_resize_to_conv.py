"""uneven_resize_to_conv: Resizes that do not enlarge by whole factors, as matrices; others stay."""

from __future__ import annotations

import pytest

RULE = "uneven_resize_to_conv"
MATRICES = ["Transpose", "Conv", "Transpose"] * 2


@pytest.mark.parametrize(
    ("mode", "coordinates", "scales", "expected"),
    [
        ("linear", "half_pixel", (1.6, 1.5), MATRICES),
        ("linear", "align_corners", (0.5, 0.5), MATRICES),
        ("linear", "asymmetric", (2, 2), MATRICES),
        ("linear", "half_pixel", (2.05, 2), MATRICES),
        ("linear", "half_pixel", (2, 3), ["Resize"]),
        ("linear", "half_pixel", (1, 1), ["Resize"]),
        ("nearest", "half_pixel", (1, 1.5), MATRICES[:3]),
        ("nearest", "asymmetric", (0.5, 0.5), MATRICES),
        ("nearest", "asymmetric", (2, 3), ["Resize"]),
        ("cubic", "half_pixel", (1.6, 1.5), ["Resize"]),
    ],
)
def test_what_whole_factors_do_not_give(graphs, mode, coordinates, scales, expected):
    net = graphs.Net(opset=19, x=(1, 3, 10, 8))
    how = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
    resize = net.op("Resize", "x", "", net.const((1, 1, *scales)), **how)
    after, _ = graphs.apply(net.model(resize), RULE)
    assert graphs.ops(after) == expected
