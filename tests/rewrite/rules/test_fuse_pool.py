"""fuse_pool: poolings are marked as a part of the convolution before them."""

from __future__ import annotations

import pytest
from fusable_pools import POOLS

ACTIVATION = "fuse_activation"
RULE = "fuse_pool"


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("activation", [True, False])
def test_pool_is_marked(graphs, kind, activation):
    net = graphs.Net(x=(1, 4, 10, 10))
    value = net.conv("x", (4, 4, 3, 3), name="c")
    value = net.op("Relu", value, name="act") if activation else value
    op, attributes = POOLS[kind]
    after, _ = graphs.apply(net.model(net.op(op, value, name="p", **attributes), hp=["p"]), ACTIVATION, RULE)
    assert graphs.marks(after) == ({"act": "c_v", "p": "c_v"} if activation else {"p": "c_v"})
    assert after.tags.of("c_v").hp


@pytest.mark.parametrize(
    ("op", "attributes", "text"),
    [
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, "average fewer elements"),
        ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, "average fewer elements"),
        ("MaxPool", {"kernel_shape": [3, 3], "dilations": [2, 2]}, "dilated"),
        ("MaxPool", {"kernel_shape": [3, 3], "outputs": 2}, "indices"),
    ],
)
def test_pool_declines(graphs, op, attributes, text):
    net = graphs.Net(x=(1, 4, 8, 8))
    after, log = graphs.apply(net.model(net.op(op, net.conv("x", (4, 4, 1, 1)), **attributes)), RULE)
    assert graphs.marks(after) == {}
    assert text in log.of(RULE).declined[0].reason


def test_pool_declines_when_needed_elsewhere_or_tagged(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    relu = net.op("Relu", net.conv("x", (4, 4, 1, 1)), name="act")
    pool = net.op("MaxPool", relu, kernel_shape=[2, 2], name="p")
    after, log = graphs.apply(net.model(pool, relu), ACTIVATION, RULE)
    assert "also an output" in log.of(RULE).declined[0].reason
    after, log = graphs.apply(net.model(pool, cpu=["p"]), ACTIVATION, RULE)
    assert "`_cpu`" in log.of(RULE).declined[0].reason
    assert graphs.marks(after) == {"act": "conv0_v"}
    after, log = graphs.apply(net.model(pool, cpu=["act"]), ACTIVATION, RULE)
    assert graphs.marks(after) == {}
