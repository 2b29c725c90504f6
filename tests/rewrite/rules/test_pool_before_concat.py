"""pool_before_concat: the parts of a concatenation are pooled instead of the whole."""

from __future__ import annotations

import pytest
from fusable_pools import POOLS

ACTIVATION = "fuse_activation"
POOL = "fuse_pool"
RULE = "pool_before_concat"


def _fire(net, value, channels=4):
    squeeze = net.op("Relu", net.conv(value, (channels, 4, 1, 1), name="squeeze"))
    one = net.op("Relu", net.conv(squeeze, (6, channels, 1, 1), name="e1"), name="r1")
    three = net.op("Relu", net.conv(squeeze, (7, channels, 3, 3), pads=[1] * 4, name="e3"), name="r3")
    return net.op("Concat", one, three, axis=1, name="cat")


@pytest.mark.parametrize("kind", POOLS)
def test_fire_and_pool(graphs, kind):
    net = graphs.Net(x=(1, 4, 11, 9))
    op, attributes = POOLS[kind]
    model = net.model(net.op(op, _fire(net, "x"), name="pool", **attributes), hp=["pool", "cat"])
    after, _ = graphs.apply(model, RULE, ACTIVATION, POOL)
    nodes = after.proto().graph.node
    assert nodes[-1].op_type == "Concat"
    assert nodes[-1].name == "cat"
    marks = graphs.marks(after)
    assert (marks["r1"], marks["r3"]) == ("e1_v", "e3_v")
    assert sorted(marks[n.name] for n in nodes if n.op_type == op) == ["e1_v", "e3_v"]
    assert after.tags.of("e1_v").hp
    assert "pool" in after.tags.of("e3_v").origins
    assert after.tags.of("pool_v").origins == ("cat",)


def test_pool_before_concat_declines(graphs):
    net = graphs.Net(x=(1, 4, 8, 8), y=(1, 4, 8, 8))
    pooled = net.op("MaxPool", net.op("Concat", "x", "y", axis=1), kernel_shape=[2, 2], name="inputs")
    fire = _fire(net, "x")
    shared = net.op("MaxPool", fire, kernel_shape=[2, 2], name="shared")
    cpu = net.op("Concat", net.conv("x", (2, 4, 1, 1)), "y", axis=1)
    cpu = net.op("MaxPool", cpu, kernel_shape=[2, 2], name="p_cpu")
    indices = net.op("Concat", net.conv("x", (2, 4, 1, 1)), "y", axis=1)
    indices = net.op("MaxPool", indices, kernel_shape=[2, 2], name="indices", outputs=2)
    after, log = graphs.apply(net.model(pooled, shared, fire, cpu, indices, cpu=["p_cpu"]), RULE)
    reasons = {d.site.split(" + ")[1]: d.reason for d in log.of(RULE).declined}
    assert "no part is the result of a convolution" in reasons["inputs"]
    assert "also an output" in reasons["shared"]
    assert "`_cpu`" in reasons["p_cpu"]
    assert "indices" in reasons["indices"]
    assert graphs.ops(after).count("MaxPool") == 4


def test_pool_over_a_concatenation_along_rows_is_not_a_site(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    conv = net.conv("x", (4, 4, 1, 1))
    model = net.model(net.op("MaxPool", net.op("Concat", conv, "x", axis=2), kernel_shape=[2, 2]))
    after, log = graphs.apply(model, RULE)
    assert log.of(RULE).fired == log.of(RULE).declined == ()
    assert graphs.ops(after) == graphs.ops(model)
