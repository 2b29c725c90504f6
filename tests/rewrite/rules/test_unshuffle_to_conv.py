"""unshuffle_to_conv: PixelUnshuffle and SpaceToDepth as a convolution with ones and zeros."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.graph.onnx_runtime import FloatSession

RULE = "unshuffle_to_conv"


def unshuffled(net, parts, order, shape, name="s"):
    split = net.op("Reshape", "x", net.ints(*parts), name=f"{name}_split")
    turn = net.op("Transpose", split, perm=list(order), name=f"{name}_turn")
    return net.op("Reshape", turn, net.ints(*shape), name=name)


@pytest.mark.parametrize("order", [(0, 1, 3, 5, 2, 4), (0, 3, 5, 1, 2, 4)])  # PyTorch's, SpaceToDepth's
def test_gives_what_onnx_runtime_gives(graphs, order):
    net = graphs.Net(x=(1, 3, 8, 6))
    before = net.model(unshuffled(net, (1, 3, 4, 2, 3, 2), order, (1, 12, 4, 3)), hp=["s_turn"])
    after, _ = graphs.apply(before, RULE)
    assert graphs.ops(after) == ["Conv"]
    assert after.tags.of("s_v").hp
    x = {"x": np.random.default_rng(2).normal(size=(1, 3, 8, 6)).astype(np.float32)}
    np.testing.assert_array_equal(FloatSession(after).run(x)["s_v"], FloatSession(before).run(x)["s_v"])


def test_space_to_depth(graphs):
    net = graphs.Net(x=(1, 2, 6, 9))
    after, _ = graphs.apply(net.model(net.op("SpaceToDepth", "x", blocksize=3)), RULE)
    assert graphs.ops(after) == ["Conv"]


def test_other_orders_decline(graphs):
    net = graphs.Net(x=(1, 3, 8, 6))
    _, log = graphs.apply(net.model(unshuffled(net, (1, 3, 2, 4, 2, 3), (0, 1, 2, 4, 3, 5), (1, 12, 4, 3))), RULE)
    assert "not pixels of blocks" in log.of(RULE).declined[0].reason
