"""order_mul: the gate of a channel-wise product stands second."""

from __future__ import annotations

import numpy as np

RULE = "order_mul"


def test_gate_goes_second(graphs):
    net = graphs.Net(x=(1, 2, 4, 4), gate=(1, 2, 1, 1))
    model = net.model(net.op("Mul", "gate", "x", name="m"), net.op("Mul", "x", "gate"), hp=["m"], cpu=["m"])
    after, log = graphs.apply(model, RULE)
    assert [list(n.input) for n in after.proto().graph.node] == [["x", "gate"], ["x", "gate"]]
    assert log.of(RULE).fired == ("m",)
    assert after.tags.of("m_v").hp
    assert after.tags.of("m_v").cpu
    constant = graphs.Net(x=(1, 2, 4, 4))
    _, log = graphs.apply(constant.model(constant.op("Mul", constant.const(np.ones((2, 1, 1))), "x")), RULE)
    assert log.of(RULE).fired == ()
