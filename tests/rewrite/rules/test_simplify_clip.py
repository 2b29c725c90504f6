"""simplify_clip: clamps in one form."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "simplify_clip"


def test_clip_from_zero_is_relu(graphs):
    for high in ("", None, 3.5e38):
        net = graphs.Net(x=(1, 3, 4, 4))
        bounds = [net.const(0.0)] + ([] if high is None else [net.const(np.inf) if high else ""])
        after, _ = graphs.apply(net.model(net.op("Clip", "x", *bounds)), RULE)
        assert graphs.ops(after) == ["Relu"]


@pytest.mark.parametrize("on_left", [False, True])
@pytest.mark.parametrize(
    ("op", "bound", "result"), [("Max", 0.0, "Relu"), ("Max", -1.0, "Clip"), ("Min", 6.0, "Clip")]
)
def test_max_and_min_with_a_number(graphs, op, bound, result, on_left):
    net = graphs.Net(x=(1, 3, 4, 4))
    operands = ["x", net.const(np.full((3, 1, 1), bound))]
    model = net.model(net.op(op, *(operands[::-1] if on_left else operands)))
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == [result]


def test_declines_for_several_numbers_and_for_broadcasting(graphs):
    net = graphs.Net(x=(1, 3, 1, 1))
    several = net.op("Max", "x", net.const([[[0.0]], [[1.0]], [[2.0]]]), name="several")
    wider = net.op("Max", "x", net.const(np.zeros((1, 3, 4, 4))), name="wider")
    _, log = graphs.apply(net.model(several, wider), RULE)
    reasons = {d.site: d.reason for d in log.of(RULE).declined}
    assert reasons == {
        "several": "its constant holds several numbers",
        "wider": "its constant widens the result by broadcasting",
    }


def test_max_of_two_values_is_not_a_site(graphs):
    net = graphs.Net(x=(1, 3, 4, 4), y=(1, 3, 4, 4))
    _, log = graphs.apply(net.model(net.op("Max", "x", "y")), RULE)
    assert log.of(RULE).fired == log.of(RULE).declined == ()


def test_tags_go_along(graphs):
    net = graphs.Net(x=(1, 3, 4, 4))
    model = net.model(net.op("Max", "x", net.const(0.0), name="m"), hp=["m"], cpu=["m"])
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Relu"]
    assert after.tags.of("m_v").hp
    assert after.tags.of("m_v").cpu
