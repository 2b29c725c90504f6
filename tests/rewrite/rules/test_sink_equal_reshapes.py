"""sink_equal_reshapes: reshapes of all operands go behind what computes with them."""

from __future__ import annotations

import pytest

RULE = "sink_equal_reshapes"


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max"])
def test_both_reshapes_become_one_behind(graphs, op: str) -> None:
    net = graphs.Net(x=(1, 3, 1, 4), y=(1, 3, 1, 4))
    operands = [net.op("Squeeze", name, net.ints(2), name=f"squeezed_{name}") for name in ("x", "y")]
    value = net.op(op, *operands, name="a")
    after, _ = graphs.apply(net.model(value, hp=["a"], cpu=["squeezed_y"]), RULE)
    assert graphs.ops(after) == [op, "Reshape"]
    moved, reshape = after.proto().graph.node
    assert moved.name == "a"
    assert after.tags.of(moved.output[0]).hp
    assert after.tags.of("a_v").cpu
    assert reshape.name == "squeezed_x"


def test_three_operands(graphs) -> None:
    net = graphs.Net(x=(1, 2, 2), y=(1, 2, 2), z=(1, 2, 2))
    after, _ = graphs.apply(net.model(net.op("Sum", *[net.op("Flatten", name) for name in "xyz"])), RULE)
    assert graphs.ops(after) == ["Sum", "Reshape"]


def test_what_is_declined(graphs) -> None:
    net = graphs.Net(x=(1, 2, 3), y=(1, 3, 2), z=(1, 2, 3), b=(1, 1))
    shared = net.op("Flatten", "x", name="shared")
    outputs = [
        net.op("Add", shared, net.op("Flatten", "z"), name="read_elsewhere"),
        net.op("Add", net.op("Flatten", "x"), net.op("Flatten", "y"), name="other_before"),
        net.op("Add", net.op("Flatten", "x"), net.op("Flatten", "b"), name="broadcast"),
        net.op("Relu", shared),
    ]
    twice = net.op("Flatten", "z")
    outputs.append(net.op("Add", twice, twice, name="twice"))
    after, log = graphs.apply(net.model(*outputs), RULE)
    reasons = {declined.site.split(" + ")[-1]: declined.reason for declined in log.of(RULE).declined}
    assert "also read by" in reasons["read_elsewhere"]
    assert "several shapes before" in reasons["other_before"]
    assert "several shapes" in reasons["broadcast"]
    assert "more than once" in reasons["twice"]
    assert "Reshape" not in graphs.ops(after)
