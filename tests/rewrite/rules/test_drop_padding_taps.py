"""drop_padding_taps: dilations so wide that parts of a kernel never see the image."""

from __future__ import annotations

import pytest

RULE = "drop_padding_taps"


@pytest.mark.parametrize(
    ("size", "kernel", "dilation", "stride", "left"),
    [(8, 3, 24, 1, (1, 1)), (8, 3, 8, 2, (1, 1)), (6, 5, 4, 1, (3, 3)), (9, 3, 12, 3, (1, 1))],
)
@pytest.mark.parametrize("groups", [1, 4])
def test_the_middle_of_a_kernel_stays(graphs, size, kernel, dilation, stride, left, groups):
    net = graphs.Net(x=(1, 4, size, size + 1 if dilation > 12 else size))
    pad = dilation * (kernel // 2)
    attributes = {"dilations": [dilation] * 2, "pads": [pad] * 4, "strides": [stride] * 2, "group": groups}
    value = net.conv("x", (4, 4 // groups, kernel, kernel), name="c", **attributes)
    after, _ = graphs.apply(net.model(value, hp=["c"]), RULE)
    conv = graphs.node(after, "Conv")
    assert graphs.constant(after, conv.input[1]).shape == (4, 4 // groups, *left)
    assert graphs.attribute(conv, "dilations") == [dilation if side > 1 else 1 for side in left]
    assert after.tags.of("c_v").hp


@pytest.mark.parametrize("pads", [[2] * 4, [0] * 4])
def test_kernels_on_the_image_stay(graphs, pads):
    net = graphs.Net(x=(1, 2, 8, 8))
    _, log = graphs.apply(net.model(net.conv("x", (2, 2, 3, 3), dilations=[2, 2], pads=pads)), RULE)
    assert log.of(RULE).fired == log.of(RULE).declined == ()


def test_a_window_that_would_begin_inside_declines(graphs):
    net = graphs.Net(x=(1, 2, 8, 8))
    value = net.conv("x", (2, 2, 3, 3), dilations=[5, 5], pads=[4, 4, 0, 0], strides=[9, 9])
    _, log = graphs.apply(net.model(value), RULE)
    assert "inside of the image" in log.of(RULE).declined[0].reason
