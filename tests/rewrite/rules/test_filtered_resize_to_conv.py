"""filtered_resize_to_conv: cubic and antialiased Resizes as matrices; others stay."""

from __future__ import annotations

import pytest

RULE = "filtered_resize_to_conv"


@pytest.mark.parametrize(
    ("mode", "antialias", "expected"),
    [
        ("cubic", 0, ["Transpose", "Conv", "Transpose"] * 2),
        ("linear", 1, ["Transpose", "Conv", "Transpose"] * 2),
        ("linear", 0, ["Resize"]),
        ("nearest", 0, ["Resize"]),
    ],
)
def test_filters_of_several_elements(graphs, mode, antialias, expected):
    net = graphs.Net(opset=19, x=(1, 3, 10, 8))
    resize = net.op("Resize", "x", "", net.const((1, 1, 0.6, 1.5)), mode=mode, antialias=antialias)
    after, _ = graphs.apply(net.model(resize), RULE)
    assert graphs.ops(after) == expected
