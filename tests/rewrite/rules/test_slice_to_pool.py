"""slice_to_pool: a Slice that takes every n-th row or column is a 1x1 max pooling with strides."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "slice_to_pool"
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
    after, log = graphs.apply(model, RULE)
    whole = np.arange(hw[0])[slice(0, bounds[1][0], bounds[3][0])].size == np.arange(hw[0])[:: bounds[3][0]].size
    assert graphs.ops(after) == (["MaxPool"] if whole else ["Slice"])
    assert bool(log.of(RULE).declined) == (not whole)
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
    _, log = graphs.apply(net.model(_slice(net, "x", *bounds)), RULE)
    assert text in log.of(RULE).declined[0].reason
