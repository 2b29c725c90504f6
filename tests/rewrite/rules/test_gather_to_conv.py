"""gather_to_conv: elements along an axis, picked by zeros and ones."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "gather_to_conv"
PICKED = [0, 0, 3, 1, 2, 2, -1]


@pytest.mark.parametrize(("axis", "turned"), [(1, False), (2, True), (3, True), (-1, True), (0, False)])
def test_along_each_axis(graphs, axis, turned):
    shape = [1, 4, 5, 6]
    net = graphs.Net(x=[4, *shape[1:]] if axis == 0 else shape)
    picked = net.op("Gather", "x", net.ints(*PICKED), name="g", axis=axis)
    after, _ = graphs.apply(net.model(picked, hp=["g"]), RULE)
    whole = ["Reshape", "Transpose", "Conv", "Transpose", "Reshape"]
    assert graphs.ops(after) == (whole if turned else ["Reshape", "Reshape", "Conv", "Reshape"])
    assert all(after.tags.of(n.output[0]).hp for n in after.proto().graph.node if n.op_type in ("Conv", "Transpose"))


def test_indices_of_two_dimensions_and_one_number(graphs):
    net = graphs.Net(x=(1, 4, 6))
    table = net.op("Gather", "x", net.const([[0, 3], [2, 1]], np.int64), axis=2)
    one = net.op("Gather", "x", net.const(2, np.int64), axis=1)
    after, log = graphs.apply(net.model(table, one), RULE)
    assert len(log.of(RULE).fired) == 2
    assert "Gather" not in graphs.ops(after)


def test_rows_of_a_table_stay(graphs):
    net = graphs.Net(x=(1, 3))
    rows = net.op("Gather", net.normal(7, 4), net.op("Cast", "x", to=7))
    _, log = graphs.apply(net.model(rows), RULE)
    assert log.of(RULE).fired == ()
