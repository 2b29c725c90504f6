"""choice_to_leaky_relu: activations that people write with `torch.where`."""

from __future__ import annotations

import pytest

RULE = "choice_to_leaky_relu"


@pytest.mark.parametrize("test", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
@pytest.mark.parametrize(("slope", "expected"), [(0.1, "LeakyRelu"), (-1.0, "LeakyRelu"), (None, "Relu")])
def test_by_sign(graphs, test, slope, expected):
    net = graphs.Net(x=(1, 3, 4, 5))
    above = net.op(test, "x", net.const(0.0))
    other = net.const(0.0) if slope is None else net.op("Mul", net.const(slope), "x")
    parts = ("x", other) if test.startswith("Greater") else (other, "x")
    after, _ = graphs.apply(net.model(net.op("Where", above, *parts, name="a"), hp=["a"]), RULE)
    assert graphs.ops(after) == [expected]
    assert after.tags.of("a_v").hp


@pytest.mark.parametrize(("threshold", "reason"), [(0.5, "another number than 0"), (0.0, "not a multiple")])
def test_other_choices_decline(graphs, threshold, reason):
    net = graphs.Net(x=(1, 3, 4, 5), y=(1, 3, 4, 5))
    test = net.op("Greater", "x", net.const(threshold))
    _, log = graphs.apply(net.model(net.op("Where", test, "x", "y")), RULE)
    assert reason in log.of(RULE).declined[0].reason
