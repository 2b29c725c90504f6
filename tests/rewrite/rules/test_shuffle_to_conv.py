"""shuffle_to_conv: shuffled channels as a convolution with ones and zeros."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.graph.onnx_runtime import FloatSession

RULE = "shuffle_to_conv"


def shuffled(net, parts, order, name="s"):
    split = net.op("Reshape", "x", net.ints(*parts), name=f"{name}_split")
    turn = net.op("Transpose", split, perm=list(order), name=f"{name}_turn")
    return net.op("Reshape", turn, net.ints(1, 12, 4, 5), name=name)


@pytest.mark.parametrize(
    ("parts", "order"),
    [
        ((1, 2, 6, 4, 5), (0, 2, 1, 3, 4)),
        ((1, 3, 4, 20), (0, 2, 1, 3)),
        ((1, 2, 3, 2, 4, 5), (0, 3, 1, 2, 4, 5)),
    ],
)
def test_gives_what_onnx_runtime_gives(graphs, parts, order):
    net = graphs.Net(x=(1, 12, 4, 5))
    before = net.model(shuffled(net, parts, order), hp=["s_turn"])
    after, _ = graphs.apply(before, RULE)
    assert graphs.ops(after) == ["Conv"]
    assert after.tags.of("s_v").hp
    x = {"x": np.random.default_rng(2).normal(size=(1, 12, 4, 5)).astype(np.float32)}
    np.testing.assert_array_equal(FloatSession(after).run(x)["s_v"], FloatSession(before).run(x)["s_v"])


def test_declines(graphs):
    net = graphs.Net(x=(1, 12, 4, 5))
    within = shuffled(net, (1, 12, 4, 5), (0, 1, 3, 2), "within")
    twice = shuffled(net, (1, 2, 6, 4, 5), (0, 2, 1, 3, 4), "twice")
    kept = shuffled(net, (1, 2, 6, 4, 5), (0, 2, 1, 3, 4), "kept")
    _, log = graphs.apply(net.model(within, twice, kept, "twice_turn_v", cpu=["kept_turn"]), RULE)
    reasons = {each.site.split("_")[0]: each.reason for each in log.of(RULE).declined}
    assert set(reasons) == {"within", "twice", "kept"}
    assert "within a map" in reasons["within"]
    assert "output of the network" in reasons["twice"]
    assert "`_cpu`" in reasons["kept"]
