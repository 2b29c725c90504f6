"""simplify_clip and merge_clips."""

from __future__ import annotations

import numpy as np
import pytest

SIMPLIFY, MERGE = "simplify_clip", "merge_clips"


def test_clip_from_zero_is_relu(graphs):
    for high in ("", None, 3.5e38):
        net = graphs.Net(x=(1, 3, 4, 4))
        bounds = [net.const(0.0)] + ([] if high is None else [net.const(np.inf) if high else ""])
        after, _ = graphs.apply(net.model(net.op("Clip", "x", *bounds)), SIMPLIFY)
        assert graphs.ops(after) == ["Relu"]


@pytest.mark.parametrize("on_left", [False, True])
@pytest.mark.parametrize(
    ("op", "bound", "result"), [("Max", 0.0, "Relu"), ("Max", -1.0, "Clip"), ("Min", 6.0, "Clip")]
)
def test_max_and_min_with_a_number(graphs, op, bound, result, on_left):
    net = graphs.Net(x=(1, 3, 4, 4))
    operands = ["x", net.const(np.full((3, 1, 1), bound))]
    model = net.model(net.op(op, *(operands[::-1] if on_left else operands)))
    after, _ = graphs.apply(model, SIMPLIFY)
    assert graphs.ops(after) == [result]


def test_declines_for_several_numbers_and_for_broadcasting(graphs):
    net = graphs.Net(x=(1, 3, 1, 1))
    several = net.op("Max", "x", net.const([[[0.0]], [[1.0]], [[2.0]]]), name="several")
    wider = net.op("Max", "x", net.const(np.zeros((1, 3, 4, 4))), name="wider")
    _, log = graphs.apply(net.model(several, wider), SIMPLIFY)
    reasons = {d.site: d.reason for d in log.of(SIMPLIFY).declined}
    assert reasons == {
        "several": "its constant holds several numbers",
        "wider": "its constant widens the result by broadcasting",
    }


def test_max_of_two_values_is_not_a_site(graphs):
    net = graphs.Net(x=(1, 3, 4, 4), y=(1, 3, 4, 4))
    _, log = graphs.apply(net.model(net.op("Max", "x", "y")), SIMPLIFY)
    assert log.of(SIMPLIFY).fired == log.of(SIMPLIFY).declined == ()


def test_tags_go_along(graphs):
    net = graphs.Net(x=(1, 3, 4, 4))
    model = net.model(net.op("Max", "x", net.const(0.0), name="m"), hp=["m"], cpu=["m"])
    after, _ = graphs.apply(model, SIMPLIFY)
    assert graphs.ops(after) == ["Relu"]
    assert after.tags.of("m_v").hp
    assert after.tags.of("m_v").cpu


@pytest.mark.parametrize(
    "bounds", [(-1, 3, 0, 6), (0, 6, -2, 1), (-3, -1, 0, 2), (5, 9, 0, 4), (0, np.inf, 0, np.inf)]
)
def test_clips_merge(graphs, bounds):
    net = graphs.Net(x=(1, 3, 8, 8))
    value = net.op("Clip", "x", *(net.const(b) for b in bounds[:2]), name="first")
    value = net.op("Clip", value, *(net.const(b) for b in bounds[2:]), name="second")
    after, log = graphs.apply(net.model(value, hp=["first"]), MERGE)
    assert len(graphs.ops(after)) == 1
    assert log.of(MERGE).fired == ("first + second",)
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
    after, log = graphs.apply(net.model("a_v", "shared_v", "b_cpu_v", "c_v", cpu=["b_cpu"]), MERGE)
    reasons = {d.site.split(" + ")[1]: d.reason for d in log.of(MERGE).declined}
    assert "output of the network" in reasons["a"]
    assert "`_cpu`" in reasons["b_cpu"]
    assert "not constant" in reasons["c"]
    assert graphs.ops(after).count("Clip") == 3
