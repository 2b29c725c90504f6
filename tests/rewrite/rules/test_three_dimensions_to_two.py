"""three_dimensions_to_two: convolutions over three dimensions with a kernel of length 1 along the last."""

from __future__ import annotations

import pytest

RULE = "three_dimensions_to_two"


@pytest.mark.parametrize(
    ("shape", "weight", "attributes"),
    [
        ((1, 1, 6, 5, 4), (8, 1, 3, 3, 1), {"pads": [1, 1, 0, 1, 1, 0]}),
        ((1, 4, 7, 6, 3), (6, 2, 3, 2, 1), {"group": 2, "strides": [2, 1, 1], "pads": [0, 1, 0, 2, 0, 0]}),
        ((2, 3, 5, 7, 2), (4, 3, 1, 3, 1), {"dilations": [1, 2, 1], "pads": [0, 2, 0, 0, 1, 0]}),
        ((1, 2, 6, 8, 1), (4, 2, 3, 3, 1), {"strides": [1, 2, 1]}),
        ((1, 2, 3, 4, 5), (4, 2, 1, 1, 1), {}),
    ],
)
def test_folded_into_the_height(graphs, shape, weight, attributes):
    net = graphs.Net(x=shape)
    layer = net.op("Conv", "x", net.normal(*weight), net.normal(weight[0]), name="layer", **attributes)
    after, _ = graphs.apply(net.model(layer, hp=["layer"]), RULE)
    assert graphs.ops(after) == ["Reshape", "Conv", "Reshape"]
    flat = graphs.node(after, "Conv")
    assert flat.name == "layer"
    assert after.tags.of(flat.output[0]).hp


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"pads": [0, 0, 1, 0, 0, 0]}, "pads the last dimension"),
        ({"strides": [1, 1, 2]}, "strides there"),
        ({"strides": [1, 2, 1]}, "strides along"),
        ({"auto_pad": "SAME_UPPER"}, "SAME_UPPER"),
    ],
)
def test_declines(graphs, attributes, why):
    net = graphs.Net(x=(1, 2, 6, 6, 4))
    _, log = graphs.apply(net.model(net.op("Conv", "x", net.normal(4, 2, 3, 3, 1), **attributes)), RULE)
    assert why in log.of(RULE).declined[0].reason


def test_kernels_along_the_last_dimension_are_no_site(graphs):
    net = graphs.Net(x=(1, 2, 6, 6, 4))
    _, log = graphs.apply(net.model(net.op("Conv", "x", net.normal(4, 2, 3, 3, 2))), RULE)
    assert log.of(RULE).fired == log.of(RULE).declined == ()
