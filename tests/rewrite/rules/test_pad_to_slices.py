"""pad_to_slices: padding with the value's own elements, as slices joined to it."""

from __future__ import annotations

import pytest

RULE = "pad_to_slices"


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [(0, 0, 1, 2, 0, 0, 3, 0), (0, 0, 0, 2, 0, 0, 0, 2), (0, 1, 0, 0, 0, 1, 0, 0)])
def test_pads_along_any_axis(graphs, mode, pads):
    net = graphs.Net(opset=19, x=(1, 2, 5, 4))
    after, _ = graphs.apply(net.model(net.op("Pad", "x", net.ints(*pads), mode=mode)), RULE)
    assert set(graphs.ops(after)) == {"Slice", "Concat"}


def test_pads_of_the_rows(graphs):
    net = graphs.Net(x=(1, 2, 5, 4))
    model = net.model(net.op("Pad", "x", net.ints(0, 0, 1, 0, 0, 0, 2, 0), name="p", mode="reflect"), hp=["p"])
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Slice", "Slice", "Concat"]
    assert after.tags.of("p_v").hp


def test_negative_pads_decline(graphs):
    net = graphs.Net(x=(1, 2, 5, 4))
    model = net.model(net.op("Pad", "x", net.ints(0, 0, -1, 0, 0, 0, 2, 0), mode="reflect"))
    _, log = graphs.apply(model, RULE)
    assert "negative" in log.of(RULE).declined[0].reason
