"""sink_reshape: reshapes go behind the ops that do not mind the shape."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "sink_reshape"


@pytest.mark.parametrize(
    "build",
    [
        lambda net, v: net.op("Relu", v, name="a"),
        lambda net, v: net.op("Clip", v, net.const(0.0), net.const(6.0), name="a"),
        lambda net, v: net.op("LeakyRelu", v, alpha=0.2, name="a"),
        lambda net, v: net.op("PRelu", v, net.normal(6), name="a"),
        lambda net, v: net.op("PRelu", v, net.normal(1), name="a"),
        lambda net, v: net.op("Mul", net.normal(1, 6), v, name="a"),
        lambda net, v: net.op("Sub", net.const(1.0), v, name="a"),
        lambda net, v: net.batch_norm(v, 6, name="a"),
    ],
)
def test_sink_moves_the_reshape_behind(graphs, build):
    net = graphs.Net(x=(1, 6, 1, 1))
    value = build(net, net.op("Flatten", net.op("Neg", "x"), name="flat"))
    after, _ = graphs.apply(net.model(value, hp=["a"], cpu=["flat"]), RULE)
    ops = graphs.ops(after)
    assert ops[-1] == "Reshape"
    assert len(ops) == 3
    moved = after.proto().graph.node[1]
    assert moved.name == "a"
    assert after.tags.of(moved.output[0]).hp
    assert after.tags.of("a_v").cpu
    assert after.proto().graph.node[2].name == "flat"


def test_sink_declines(graphs):
    net = graphs.Net(x=(1, 2, 3, 1))
    shared = net.op("Flatten", "x", name="f1")
    net.op("Relu", shared, name="shared")
    net.op("PRelu", net.op("Flatten", "x"), net.normal(6), name="channels")
    net.batch_norm(net.op("Flatten", "x"), 6, name="norm")
    net.op("Add", net.op("Flatten", "x"), net.const(np.zeros((4, 6))), name="wider")
    outputs = [f"{n}_v" for n in ("shared", "channels", "norm", "wider")]
    after, log = graphs.apply(net.model(*outputs, shared), RULE)
    reasons = {d.site.split(" + ")[1]: d.reason for d in log.of(RULE).declined}
    assert "is also an output" in reasons["shared"]
    assert "changes the channels" in reasons["channels"]
    assert "changes its channels" in reasons["norm"]
    assert "widens" in reasons["wider"]
    assert "Reshape" not in graphs.ops(after)
