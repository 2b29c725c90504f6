"""instance_norm_to_rows: normalised channels as normalised rows, then scale and shift."""

from __future__ import annotations

import pytest

RULE = "instance_norm_to_rows"


@pytest.mark.parametrize("shape", [(1, 3, 4, 5), (1, 3, 7)])
def test_channels(graphs, shape):
    net = graphs.Net(x=shape)
    value = net.op("InstanceNormalization", "x", net.normal(3), net.normal(3), epsilon=1e-3, name="n")
    after, _ = graphs.apply(net.model(value, hp=["n"]), RULE)
    assert graphs.ops(after) == ["Reshape", "LayerNormalization", "Reshape", "Mul", "Add"]
    assert after.tags.of(graphs.node(after, "LayerNormalization").output[0]).hp


def test_groups_have_no_scale(graphs):
    net = graphs.Net(x=(1, 2, 30))
    value = net.op("InstanceNormalization", "x", net.const([1, 1]), net.const([0, 0]))
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Reshape", "LayerNormalization", "Reshape"]


def test_computed_scale_declines(graphs):
    net = graphs.Net(x=(1, 3, 7), y=(3,))
    _, log = graphs.apply(net.model(net.op("InstanceNormalization", "x", "y", net.normal(3))), RULE)
    assert "computed" in log.of(RULE).declined[0].reason
