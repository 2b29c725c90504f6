"""slice_to_pool, merge_subsampling, pad_channels_to_conv: the parameter-free shortcut of CIFAR ResNets."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.rewrite import DEFAULT_RULES, resolve_rules, restructure

SLICE, MERGE, PAD = "slice_to_pool", "merge_subsampling", "pad_channels_to_conv"
END = 2**31 - 1


def _slice(net, value, starts, ends, axes, steps, name="s"):
    return net.op("Slice", value, *(net.ints(*each) for each in (starts, ends, axes, steps)), name=name)


@pytest.mark.parametrize("hw", [(8, 8), (7, 9)])
@pytest.mark.parametrize(
    "bounds",
    [
        ([0], [END], [2], [2]),
        ([0, 0], [END, END], [3, 2], [3, 2]),
        ([0, 0], [END, END], [-1, -2], [1, 2]),
        ([0], [-1], [2], [3]),
    ],
)
def test_strided_slice(graphs, hw, bounds):
    net = graphs.Net(x=(1, 3, *hw))
    model = net.model(_slice(net, "x", *bounds), hp=["s"], cpu=["s"])
    after, log = graphs.apply(model, SLICE)
    whole = np.arange(hw[0])[slice(0, bounds[1][0], bounds[3][0])].size == np.arange(hw[0])[:: bounds[3][0]].size
    assert graphs.ops(after) == (["MaxPool"] if whole else ["Slice"])
    assert bool(log.of(SLICE).declined) == (not whole)
    assert after.tags.of("s_v").hp
    assert after.tags.of("s_v").cpu


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (([1], [END], [2], [2]), "leaves out elements"),
        (([0], [4], [2], [1]), "leaves out elements"),
        (([-1], [-END], [2], [-1]), "leaves out elements"),
        (([0], [END], [1], [2]), "picks channels"),
    ],
)
def test_slice_declines(graphs, bounds, text):
    net = graphs.Net(x=(1, 4, 8, 8))
    _, log = graphs.apply(net.model(_slice(net, "x", *bounds)), SLICE)
    assert text in log.of(SLICE).declined[0].reason


@pytest.mark.parametrize("hw", [(16, 16), (13, 11)])
@pytest.mark.parametrize("second", ["Conv", "MaxPool", "AveragePool"])
def test_subsampling_merges(graphs, hw, second):
    net = graphs.Net(x=(1, 4, *hw))
    value = net.op("MaxPool", "x", kernel_shape=[1, 1], strides=[2, 3], name="first")
    attributes = {"kernel_shape": [1, 1], "strides": [2, 1], "name": "second"}
    value = (
        net.conv(value, (6, 2, 1, 1), group=2, **attributes)
        if second == "Conv"
        else net.op(second, value, **attributes)
    )
    after, _ = graphs.apply(net.model(value, hp=["first"]), MERGE)
    assert graphs.ops(after) == [second]
    assert graphs.attribute(after.proto().graph.node[0], "strides") == [4, 3]
    assert after.tags.of("second_v").hp


def test_subsampling_declines(graphs):
    net = graphs.Net(x=(1, 4, 16, 16))
    first = net.op("MaxPool", "x", kernel_shape=[1, 1], strides=[2, 2], name="first")
    conv = net.conv(first, (6, 4, 1, 1))
    after, log = graphs.apply(net.model(conv, net.op("Relu", first)), MERGE)
    assert "also read by" in log.of(MERGE).declined[0].reason
    after, log = graphs.apply(net.model(conv, cpu=["first"]), MERGE)
    assert "`_cpu`" in log.of(MERGE).declined[0].reason
    assert "MaxPool" in graphs.ops(after)


@pytest.mark.parametrize("attributes", [{"kernel_shape": [3, 3]}, {"kernel_shape": [1, 1], "pads": [1, 1, 1, 1]}])
def test_windows_and_padding_do_not_merge(graphs, attributes):
    net = graphs.Net(x=(1, 4, 16, 16))
    value = net.op("MaxPool", "x", kernel_shape=[1, 1], strides=[2, 2])
    model = net.model(net.conv(value, (6, 4, *attributes.pop("kernel_shape")), **attributes))
    after, log = graphs.apply(model, MERGE)
    assert graphs.ops(after) == ["MaxPool", "Conv"]
    assert log.of(MERGE).declined == ()


@pytest.mark.parametrize(("before", "behind"), [(2, 2), (0, 4), (3, 0)])
@pytest.mark.parametrize("value", [None, 0.0, 1.5])
def test_channels(graphs, before, behind, value):
    net = graphs.Net(x=(1, 4, 5, 6))
    constant = [] if value is None else [net.const(value)]
    padded = net.op("Pad", "x", net.ints(0, before, 0, 0, 0, behind, 0, 0), *constant, name="p")
    model = net.model(padded, hp=["p"], cpu=["p"])
    after, _ = graphs.apply(model, PAD)
    assert graphs.ops(after) == ["Conv"]
    assert after.tags.of("p_v").hp
    assert after.tags.of("p_v").cpu
    x = np.random.default_rng(0).standard_normal((1, 4, 5, 6)).astype(np.float32)
    truth = np.pad(x, ((0, 0), (before, behind), (0, 0), (0, 0)), constant_values=value or 0.0)
    assert np.array_equal(graphs.run(after, {"x": x})[0], truth)


@pytest.mark.parametrize(
    ("widths", "mode", "text"),
    [
        ([0, 1, 1, 0, 0, 1, 0, 0], "constant", "other axes than the channels"),
        ([0, -1, 0, 0, 0, 3, 0, 0], "constant", "it crops"),
        ([0, 1, 0, 0, 0, 1, 0, 0], "reflect", "its mode is reflect"),
    ],
)
def test_channels_decline(graphs, widths, mode, text):
    net = graphs.Net(x=(1, 4, 5, 6))
    _, log = graphs.apply(net.model(net.op("Pad", "x", net.ints(*widths), mode=mode)), PAD)
    assert text in log.of(PAD).declined[0].reason


def test_the_whole_shortcut_is_one_strided_convolution(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    trunk = net.conv("x", (8, 4, 3, 3), pads=[1] * 4, strides=[2, 2])
    shortcut = _slice(net, _slice(net, "x", [0], [END], [2], [2], "h"), [0], [END], [3], [2], "w")
    shortcut = net.op("Pad", shortcut, net.ints(0, 2, 0, 0, 0, 2, 0, 0), name="widen")
    model = net.model(net.op("Relu", net.op("Add", trunk, shortcut)))
    after, _ = restructure(model, resolve_rules(DEFAULT_RULES))
    graphs.assert_equal(model, after)
    assert sorted(graphs.ops(after)) == ["Add", "Conv", "Conv", "Relu"]
    widen = next(n for n in after.proto().graph.node if n.name == "widen")
    assert graphs.attribute(widen, "strides") == [2, 2]
