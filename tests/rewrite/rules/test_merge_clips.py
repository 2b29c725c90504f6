"""merge_clips: chains of clamps become one."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "merge_clips"


@pytest.mark.parametrize(
    "bounds", [(-1, 3, 0, 6), (0, 6, -2, 1), (-3, -1, 0, 2), (5, 9, 0, 4), (0, np.inf, 0, np.inf)]
)
def test_clips_merge(graphs, bounds):
    net = graphs.Net(x=(1, 3, 8, 8))
    value = net.op("Clip", "x", *(net.const(b) for b in bounds[:2]), name="first")
    value = net.op("Clip", value, *(net.const(b) for b in bounds[2:]), name="second")
    after, log = graphs.apply(net.model(value, hp=["first"]), RULE)
    assert len(graphs.ops(after)) == 1
    assert log.of(RULE).fired == ("first + second",)
    assert after.tags.of("second_v").hp
    assert after.tags.of("second_v").origins == ("second", "first")


def test_merge_declines(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    shared = net.op("Relu", "x", name="shared")
    net.op("Clip", shared, "", net.const(6.0), name="a")
    kept = net.op("Relu", "x", name="kept")
    net.op("Clip", kept, "", net.const(6.0), name="b_cpu")
    computed = net.op("Relu", "x")
    net.op("Clip", computed, "", net.op("ReduceMax", "x", keepdims=0), name="c")
    after, log = graphs.apply(net.model("a_v", "shared_v", "b_cpu_v", "c_v", cpu=["b_cpu"]), RULE)
    reasons = {d.site.split(" + ")[1]: d.reason for d in log.of(RULE).declined}
    assert "output of the network" in reasons["a"]
    assert "`_cpu`" in reasons["b_cpu"]
    assert "not constant" in reasons["c"]
    assert graphs.ops(after).count("Clip") == 3
