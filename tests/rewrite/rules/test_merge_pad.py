"""merge_pad: explicit padding goes into the layers that read it."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "merge_pad"


def _pad(net, value, widths, *constant, name="pad", **attributes):
    top, left, bottom, right = widths
    return net.op("Pad", value, net.ints(0, 0, top, left, 0, 0, bottom, right), *constant, name=name, **attributes)


@pytest.mark.parametrize("own", [[0, 0, 0, 0], [1, 1, 1, 1], [0, 2, 1, 0]])
@pytest.mark.parametrize("stride", [1, 2])
def test_zero_pad_merges_into_convolutions(graphs, own, stride):
    net = graphs.Net(x=(1, 3, 9, 8))
    value = _pad(net, "x", (1, 0, 2, 1))
    one = net.conv(value, (4, 3, 3, 3), pads=own, strides=[stride, stride], name="one")
    two = net.conv(value, (4, 3, 4, 4), auto_pad="SAME_UPPER", strides=[stride, stride], name="two")
    after, _ = graphs.apply(net.model(one, two, hp=["pad"]), RULE)
    assert graphs.ops(after) == ["Conv", "Conv"]
    assert after.tags.of("one_v").hp
    assert after.tags.of("two_v").hp


def test_pad_with_axes(graphs):
    net = graphs.Net(opset=18, x=(1, 3, 9, 8))
    value = net.op("Pad", "x", net.ints(1, 2), "", net.ints(-1))
    after, _ = graphs.apply(net.model(net.conv(value, (4, 3, 3, 3))), RULE)
    assert graphs.ops(after) == ["Conv"]
    assert graphs.attribute(graphs.node(after, "Conv"), "pads") == [0, 1, 0, 2]


def test_nonzero_pad_is_marked(graphs):
    net = graphs.Net(x=(1, 3, 9, 8))
    value = net.conv(_pad(net, "x", (1, 1, 1, 1), net.const(3.0)), (4, 3, 3, 3), name="c")
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Pad", "Conv"]
    assert graphs.marks(after) == {"pad": "c_v"}


@pytest.mark.parametrize("counted", [0, 1])
def test_zero_pad_merges_into_an_average_pool(graphs, counted):
    net = graphs.Net(x=(1, 3, 9, 8))
    value = net.op(
        "AveragePool",
        _pad(net, "x", (1, 0, 0, 1)),
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[counted] * 4,
        count_include_pad=counted,
    )
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["AveragePool"]


def test_pad_merges_into_max_pool_where_it_never_wins(graphs):
    net = graphs.Net(x=(1, 3, 9, 8))
    positive = _pad(net, net.op("Relu", "x"), (0, 0, 1, 1))
    lowest = _pad(net, "x", (1, 1, 1, 1), net.const(-np.inf), name="lowest")
    outputs = [net.op("MaxPool", v, kernel_shape=[3, 3], strides=[2, 2]) for v in (positive, lowest)]
    after, _ = graphs.apply(net.model(*outputs), RULE)
    assert sorted(graphs.ops(after)) == ["MaxPool", "MaxPool", "Relu"]


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda n: n.op("MaxPool", _pad(n, "x", (1, 1, 1, 1)), kernel_shape=[3, 3]), "may win the maximum"),
        (lambda n: n.op("Relu", _pad(n, "x", (1, 1, 1, 1))), "Relu does not pad"),
        (lambda n: n.conv(_pad(n, "x", (1, 1, 1, 1), mode="reflect"), (4, 3, 3, 3)), "its mode is reflect"),
        (lambda n: n.conv(_pad(n, "x", (-1, 0, 1, 0)), (4, 3, 3, 3)), "it crops"),
        (lambda n: n.conv(n.op("Pad", "x", n.ints(0, 1, 0, 0, 0, 0, 0, 0)), (4, 4, 3, 3)), "pads the channels"),
        (lambda n: n.conv(_pad(n, "x", (1, 1, 1, 1), n.const(2.0)), (4, 3, 3, 3), pads=[1] * 4), "zeros itself"),
        (
            lambda n: n.op("AveragePool", _pad(n, "x", (1, 1, 1, 1)), kernel_shape=[3, 3], pads=[1] * 4),
            "does not count",
        ),
        (lambda n: n.op("AveragePool", _pad(n, "x", (3, 1, 1, 1)), kernel_shape=[3, 3]), "as wide as its window"),
        (
            lambda n: n.op("AveragePool", _pad(n, "x", (1, 1, 1, 1), n.const(1.0)), kernel_shape=[3, 3]),
            "the padded value is not zero",
        ),
        (
            lambda n: n.op(
                "AveragePool", _pad(n, "x", (1, 1, 1, 1)), kernel_shape=[2, 2], ceil_mode=1, strides=[2, 2]
            ),
            "ceil_mode",
        ),
        (
            lambda n: n.conv(_pad(n, "x", (1, 1, 1, 1), n.op("ReduceMax", "x", keepdims=0)), (4, 3, 3, 3)),
            "value is not",
        ),
    ],
)
def test_merge_pad_declines(graphs, build, text):
    net = graphs.Net(x=(1, 3, 9, 8))
    after, log = graphs.apply(net.model(build(net)), RULE)
    assert "Pad" in graphs.ops(after)
    assert text in log.of(RULE).declined[0].reason


def test_merge_pad_declines_for_outputs_second_readers_and_cpu(graphs):
    net = graphs.Net(x=(1, 3, 9, 8))
    value = _pad(net, "x", (1, 1, 1, 1), net.const(2.0))
    convs = [net.conv(value, (4, 3, 3, 3), name=name) for name in ("a", "b")]
    _, log = graphs.apply(net.model(*convs), RULE)
    assert "also read by 'b'" in log.of(RULE).declined[0].reason
    _, log = graphs.apply(net.model(*convs, value), RULE)
    assert "output of the network" in log.of(RULE).declined[0].reason
    _, log = graphs.apply(net.model(*convs, cpu=["b"]), RULE)
    assert "'b' is tagged `_cpu`" in log.of(RULE).declined[0].reason
