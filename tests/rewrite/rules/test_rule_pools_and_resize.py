"""global_pool, merge_pad, normalize_resize, commute_max_pool."""

from __future__ import annotations

import numpy as np
import pytest

POOL, PAD, RESIZE, COMMUTE = "global_pool", "merge_pad", "normalize_resize", "commute_max_pool"


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("axes", [(2, 3), (-1, -2), (3, 2)])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("op", "result"), [("ReduceMean", "GlobalAveragePool"), ("ReduceMax", "MaxPool")])
def test_reductions_over_h_and_w(graphs, opset, axes, keepdims, op, result):
    net = graphs.Net(opset=opset, x=(1, 5, 6, 7))
    if opset == 17:
        value = net.op(op, "x", axes=list(axes), keepdims=keepdims, name="mean")
    else:
        value = net.op(op, "x", net.ints(*axes), keepdims=keepdims, name="mean")
    after, _ = graphs.apply(net.model(value, hp=["mean"], cpu=["mean"]), POOL)
    assert graphs.ops(after) == ([result] if keepdims else [result, "Reshape"])
    pooled = graphs.node(after, result)
    assert pooled.name == "mean"
    assert after.tags.of(pooled.output[0]).hp
    assert after.tags.of(pooled.output[0]).cpu


def test_whole_window_average_and_global_max(graphs):
    net = graphs.Net(x=(1, 5, 6, 7))
    outputs = [net.op("AveragePool", "x", kernel_shape=[6, 7]), net.op("GlobalMaxPool", "x")]
    after, _ = graphs.apply(net.model(*outputs), POOL)
    assert sorted(graphs.ops(after)) == ["GlobalAveragePool", "MaxPool"]


@pytest.mark.parametrize(
    "attributes", [{"kernel_shape": [6, 6]}, {"kernel_shape": [6, 7], "pads": [0, 1, 0, 0], "strides": [2, 2]}]
)
def test_other_averages_stay(graphs, attributes):
    net = graphs.Net(x=(1, 5, 6, 7))
    after, log = graphs.apply(net.model(net.op("AveragePool", "x", **attributes)), POOL)
    assert graphs.ops(after) == ["AveragePool"]
    assert log.of(POOL).declined == ()


@pytest.mark.parametrize(
    ("axes", "text"), [((1,), "[1] instead of H and W"), ((1, 2, 3), "[1, 2, 3]"), (None, "all")]
)
def test_global_pool_declines(graphs, axes, text):
    net = graphs.Net(x=(1, 5, 6, 7))
    value = net.op("ReduceMean", "x", **({} if axes is None else {"axes": list(axes)}))
    _, log = graphs.apply(net.model(value), POOL)
    assert text in log.of(POOL).declined[0].reason


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
    after, _ = graphs.apply(net.model(one, two, hp=["pad"]), PAD)
    assert graphs.ops(after) == ["Conv", "Conv"]
    assert after.tags.of("one_v").hp
    assert after.tags.of("two_v").hp


def test_pad_with_axes(graphs):
    net = graphs.Net(opset=18, x=(1, 3, 9, 8))
    value = net.op("Pad", "x", net.ints(1, 2), "", net.ints(-1))
    after, _ = graphs.apply(net.model(net.conv(value, (4, 3, 3, 3))), PAD)
    assert graphs.ops(after) == ["Conv"]
    assert graphs.attribute(graphs.node(after, "Conv"), "pads") == [0, 1, 0, 2]


def test_nonzero_pad_is_marked(graphs):
    net = graphs.Net(x=(1, 3, 9, 8))
    value = net.conv(_pad(net, "x", (1, 1, 1, 1), net.const(3.0)), (4, 3, 3, 3), name="c")
    after, _ = graphs.apply(net.model(value), PAD)
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
    after, _ = graphs.apply(net.model(value), PAD)
    assert graphs.ops(after) == ["AveragePool"]


def test_pad_merges_into_max_pool_where_it_never_wins(graphs):
    net = graphs.Net(x=(1, 3, 9, 8))
    positive = _pad(net, net.op("Relu", "x"), (0, 0, 1, 1))
    lowest = _pad(net, "x", (1, 1, 1, 1), net.const(-np.inf), name="lowest")
    outputs = [net.op("MaxPool", v, kernel_shape=[3, 3], strides=[2, 2]) for v in (positive, lowest)]
    after, _ = graphs.apply(net.model(*outputs), PAD)
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
    after, log = graphs.apply(net.model(build(net)), PAD)
    assert "Pad" in graphs.ops(after)
    assert text in log.of(PAD).declined[0].reason


def test_merge_pad_declines_for_outputs_second_readers_and_cpu(graphs):
    net = graphs.Net(x=(1, 3, 9, 8))
    value = _pad(net, "x", (1, 1, 1, 1), net.const(2.0))
    convs = [net.conv(value, (4, 3, 3, 3), name=name) for name in ("a", "b")]
    _, log = graphs.apply(net.model(*convs), PAD)
    assert "also read by 'b'" in log.of(PAD).declined[0].reason
    _, log = graphs.apply(net.model(*convs, value), PAD)
    assert "output of the network" in log.of(PAD).declined[0].reason
    _, log = graphs.apply(net.model(*convs, cpu=["b"]), PAD)
    assert "'b' is tagged `_cpu`" in log.of(PAD).declined[0].reason


MODES = ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"]
ROUNDINGS = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("factors", [(2, 2), (3, 1), (4, 5)])
def test_resize_fires_exactly_when_it_repeats_elements(graphs, mode, rounding, factors):
    """Truth: ONNX Runtime's own output against numpy's repeat."""
    net = graphs.Net(x=(1, 2, 5, 4))
    value = net.op(
        "Resize",
        "x",
        "",
        net.const([1, 1, *factors]),
        mode="nearest",
        coordinate_transformation_mode=mode,
        nearest_mode=rounding,
    )
    model = net.model(value)
    after, log = graphs.apply(model, RESIZE)
    x = np.arange(40, dtype=np.float32).reshape(1, 2, 5, 4)
    repeats = np.array_equal(graphs.run(model, {"x": x})[0], x.repeat(factors[0], 2).repeat(factors[1], 3))
    normal = (mode, rounding) == ("asymmetric", "floor")
    assert bool(log.of(RESIZE).fired) == (repeats and not normal)
    assert bool(log.of(RESIZE).declined) == (not repeats)
    resize = graphs.node(after, "Resize")
    if repeats:
        assert graphs.attribute(resize, "nearest_mode") == b"floor"
        assert graphs.constant(after, resize.input[2]).tolist() == [1, 1, *factors]


def test_resize_by_sizes_and_axes(graphs):
    net = graphs.Net(opset=18, x=(1, 2, 5, 4))
    by_size = net.op("Resize", "x", "", "", net.ints(1, 2, 10, 12), mode="nearest", name="r")
    by_axes = net.op("Resize", "x", "", net.const([3, 2]), mode="nearest", axes=[3, 2])
    after, log = graphs.apply(net.model(by_size, by_axes, hp=["r"], cpu=["r"]), RESIZE)
    assert len(log.of(RESIZE).fired) == 2
    assert [graphs.constant(after, graphs.node(after, "Resize", i).input[2]).tolist() for i in (0, 1)] == [
        [1, 1, 2, 3],
        [1, 1, 2, 3],
    ]
    assert after.tags.of("r_v").hp
    assert after.tags.of("r_v").cpu


@pytest.mark.parametrize(
    ("scales", "attributes", "text"),
    [
        ([1, 1, 1.5, 2], {"mode": "nearest"}, "not a whole factor"),
        ([1, 1, 0.5, 0.5], {"mode": "nearest"}, "not a whole factor"),
        ([1, 1, 2, 2], {"mode": "linear"}, "its mode is linear"),
        ([1, 1, 2, 2], {"mode": "cubic"}, "its mode is cubic"),
        ([1, 2, 2, 2], {"mode": "nearest"}, "other axes than H and W"),
    ],
)
def test_resize_declines(graphs, scales, attributes, text):
    net = graphs.Net(x=(1, 2, 5, 4))
    value = net.op("Resize", "x", "", net.const(scales), coordinate_transformation_mode="asymmetric", **attributes)
    _, log = graphs.apply(net.model(value), RESIZE)
    assert text in log.of(RESIZE).declined[0].reason


@pytest.mark.parametrize(
    "build",
    [
        lambda net, v: net.op("Relu", v, name="act"),
        lambda net, v: net.op("Clip", v, net.const(-0.5), net.const(0.5), name="act"),
        lambda net, v: net.op("LeakyRelu", v, alpha=0.2, name="act"),
        lambda net, v: net.op("PRelu", v, net.const(np.linspace(0, 2, 4).reshape(4, 1, 1)), name="act"),
    ],
)
def test_activation_moves_before_the_max_pool(graphs, build):
    net = graphs.Net(x=(1, 3, 9, 8))
    conv = net.conv("x", (4, 3, 3, 3), name="conv")
    pool = net.op("MaxPool", conv, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], name="pool")
    model = net.model(build(net, pool), hp=["act"], cpu=["pool"])
    after, _ = graphs.apply(model, COMMUTE)
    nodes = after.proto().graph.node
    assert [n.name for n in nodes] == ["conv", "act", "pool"]
    assert nodes[2].op_type == "MaxPool"
    assert after.tags.of(nodes[1].output[0]).hp
    assert after.tags.of("act_v").cpu


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda net, v: net.op("LeakyRelu", v, alpha=-0.2), "its slope is negative"),
        (lambda net, v: net.op("PRelu", v, net.normal(4, 1, 1)), "a slope is negative"),
        (lambda net, v: net.op("PRelu", v, "slope"), "not constant per channel"),
    ],
)
def test_commute_declines(graphs, build, text):
    net = graphs.Net(x=(1, 3, 9, 8), slope=(4, 1, 1))
    pool = net.op("MaxPool", net.conv("x", (4, 3, 3, 3)), kernel_shape=[2, 2])
    _, log = graphs.apply(net.model(build(net, pool), net.op("Relu", "slope")), COMMUTE)
    assert text in log.of(COMMUTE).declined[0].reason


def test_commute_declines_when_a_value_is_needed(graphs):
    for which in (0, 1):
        net = graphs.Net(x=(1, 3, 9, 8))
        conv = net.conv("x", (4, 3, 3, 3))
        pool = net.op("MaxPool", conv, kernel_shape=[2, 2])
        _, log = graphs.apply(net.model(net.op("Relu", pool), (conv, pool)[which]), COMMUTE)
        assert "is also an output" in log.of(COMMUTE).declined[0].reason


def test_an_average_pool_does_not_commute(graphs):
    net = graphs.Net(x=(1, 3, 9, 8))
    pool = net.op("AveragePool", net.conv("x", (4, 3, 3, 3)), kernel_shape=[2, 2])
    after, log = graphs.apply(net.model(net.op("Relu", pool)), COMMUTE)
    assert graphs.ops(after) == ["Conv", "AveragePool", "Relu"]
    assert log.of(COMMUTE).declined == ()
