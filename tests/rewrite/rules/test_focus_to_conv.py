"""focus_to_conv: strided Slices, joined and convolved, are one convolution with the block's strides."""

from __future__ import annotations

import pytest

RULE = "focus_to_conv"
ORDER = [(0, 0), (1, 0), (0, 1), (1, 1)]  # as YOLOv5 writes it: rows first


def part(net, value, offset, steps, chained):
    if chained:
        for axis in (0, 1):
            bounds = net.ints(offset[axis]), net.ints(2**31 - 1), net.ints(axis + 2), net.ints(steps[axis])
            value = net.op("Slice", value, *bounds)
        return value
    return net.op("Slice", value, net.ints(*offset), net.ints(9999, 9999), net.ints(-2, -1), net.ints(*steps))


def focus(net, shape=(12, 3), kernel=3, steps=(2, 2), order=ORDER, chained=True, axis=1, **attributes):
    parts = [part(net, "x", offset, steps, chained) for offset in order]
    joined = net.op("Concat", *parts, axis=axis, name="joined")
    return net.conv(joined, (shape[0], shape[1] * len(order), kernel, kernel), name="conv", **attributes)


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize(
    ("kernel", "attributes", "expected"),
    [
        (3, {"pads": [1, 1, 1, 1]}, {"kernel_shape": [6, 6], "strides": [2, 2], "pads": [2, 2, 2, 2]}),
        (1, {}, {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 0, 0]}),
        (3, {"strides": [2, 1], "pads": [0, 1, 1, 2]}, {"strides": [4, 2], "pads": [0, 2, 2, 4]}),
        (3, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"strides": [4, 4], "pads": [0, 0, 2, 2]}),
    ],
)
def test_focus_is_one_convolution(graphs, chained, kernel, attributes, expected):
    net = graphs.Net(x=(1, 3, 16, 24))
    value = focus(net, kernel=kernel, chained=chained, **attributes)
    after, _ = graphs.apply(net.model(net.op("Relu", value), hp=["conv"]), RULE)
    assert graphs.ops(after) == ["Conv", "Relu"]
    for name, numbers in expected.items():
        assert graphs.attribute(after.proto().graph.node[0], name) == numbers
    assert after.tags.of("conv_v").hp
    assert "joined" in after.tags.of("conv_v").origins


@pytest.mark.parametrize(
    ("steps", "order"),
    [((2, 2), [(1, 1), (0, 0), (0, 1)]), ((3, 1), [(2, 0), (0, 0)]), ((2, 3), [(1, 2), (0, 1), (1, 2)])],
)
def test_any_blocks_in_any_order(graphs, steps, order):
    net = graphs.Net(x=(1, 2, 12, 18))
    value = focus(net, (5, 2), steps=steps, order=order, pads=[1, 1, 1, 1], bias=False)
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Conv"]


def test_shared_first_slices(graphs):
    """Two rows' Slices, each read by two columns' Slices."""
    net = graphs.Net(x=(1, 3, 8, 8))
    last = net.ints(99)
    rows = [net.op("Slice", "x", net.ints(row), last, net.ints(2), net.ints(2)) for row in (0, 1)]
    parts = [
        net.op("Slice", row, net.ints(column), last, net.ints(3), net.ints(2)) for column in (0, 1) for row in rows
    ]
    model = net.model(net.conv(net.op("Concat", *parts, axis=1), (4, 12, 3, 3), pads=[1, 1, 1, 1]))
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Conv"]


def declined(graphs, net, value):
    after, log = graphs.apply(net.model(value), RULE)
    assert "Concat" in graphs.ops(after)
    return log.of(RULE).declined[0].reason


@pytest.mark.parametrize(
    ("axis", "weight", "attributes", "reason"),
    [
        (2, (4, 3, 3, 3), {}, "not joined along the channels"),
        (1, (4, 6, 3, 3), {"group": 2}, "several groups"),
        (1, (4, 12, 3, 3), {"dilations": [2, 2]}, "dilated"),
    ],
)
def test_other_convolutions_and_joins_stay(graphs, axis, weight, attributes, reason):
    net = graphs.Net(x=(1, 3, 24, 24))
    parts = [part(net, "x", offset, (2, 2), chained=False) for offset in ORDER]
    assert reason in declined(graphs, net, net.conv(net.op("Concat", *parts, axis=axis), weight, **attributes))


def test_a_part_that_misses_its_last_row_stays(graphs):
    net = graphs.Net(x=(1, 3, 24, 24))
    cut = net.op("Slice", "x", net.ints(0, 0), net.ints(22, 24), net.ints(2, 3), net.ints(2, 2))
    late = net.op("Slice", "x", net.ints(2, 0), net.ints(24, 24), net.ints(2, 3), net.ints(2, 2))
    value = net.conv(net.op("Concat", cut, late, axis=1), (4, 6, 3, 3))
    assert "leaves out elements at the end of axis 2" in declined(graphs, net, value)


def test_parts_that_others_read_stay(graphs):
    net = graphs.Net(x=(1, 3, 16, 16))
    first = part(net, "x", (0, 0), (2, 2), chained=False)
    second = part(net, "x", (1, 1), (2, 2), chained=False)
    value = net.conv(net.op("Concat", first, second, axis=1), (4, 6, 3, 3))
    after, log = graphs.apply(net.model(value, net.op("Relu", second)), RULE)
    assert "also read elsewhere" in log.of(RULE).declined[0].reason
    assert "Slice" in graphs.ops(after)


def test_an_odd_map_stays(graphs):
    net = graphs.Net(x=(1, 3, 15, 16))
    parts = [part(net, "x", (0, column), (2, 2), chained=False) for column in (0, 1)]
    value = net.conv(net.op("Concat", *parts, axis=1), (4, 6, 3, 3))
    assert "do not divide a map of 15 x 16" in declined(graphs, net, value)
