"""pad_channels_to_conv: constant channels are added by a 1x1 convolution."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "pad_channels_to_conv"


@pytest.mark.parametrize(("before", "behind"), [(2, 2), (0, 4), (3, 0)])
@pytest.mark.parametrize("value", [None, 0.0, 1.5])
def test_channels(graphs, before, behind, value):
    net = graphs.Net(x=(1, 4, 5, 6))
    constant = [] if value is None else [net.const(value)]
    padded = net.op("Pad", "x", net.ints(0, before, 0, 0, 0, behind, 0, 0), *constant, name="p")
    model = net.model(padded, hp=["p"], cpu=["p"])
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Conv"]
    assert after.tags.of("p_v").hp
    assert after.tags.of("p_v").cpu
    x = np.random.default_rng(0).standard_normal((1, 4, 5, 6)).astype(np.float32)
    truth = np.pad(x, ((0, 0), (before, behind), (0, 0), (0, 0)), constant_values=value or 0.0)
    assert np.array_equal(graphs.run(after, {"x": x})[0], truth)


@pytest.mark.parametrize(
    ("widths", "mode", "text"),
    [
        ([0, 1, 1, 0, 0, 1, 0, 0], "constant", "other axes than the channels"),
        ([0, -1, 0, 0, 0, 3, 0, 0], "constant", "it crops"),
        ([0, 1, 0, 0, 0, 1, 0, 0], "reflect", "its mode is reflect"),
    ],
)
def test_channels_decline(graphs, widths, mode, text):
    net = graphs.Net(x=(1, 4, 5, 6))
    _, log = graphs.apply(net.model(net.op("Pad", "x", net.ints(*widths), mode=mode)), RULE)
    assert text in log.of(RULE).declined[0].reason


def test_a_padding_of_rows_and_columns_is_none_of_its_business(graphs):
    net = graphs.Net(x=(1, 4, 5, 6))
    model = net.model(net.op("Pad", "x", net.ints(0, 0, 1, 1, 0, 0, 1, 1)))
    after, log = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Pad"]
    assert log.of(RULE).declined == ()
