"""tile_to_concat: what PyTorch's `repeat` gives, by Concat."""

from __future__ import annotations

import pytest

RULE = "tile_to_concat"


@pytest.mark.parametrize(
    ("shape", "repeats", "concats"),
    [
        ((1, 3, 4, 5), (1, 2, 1, 1), 1),
        ((1, 3, 4, 5), (1, 2, 3, 1), 2),
        ((1, 2, 1, 1), (1, 1, 7, 33), 3),
        ((1, 6), (1, 4), 1),
    ],
)
def test_repeated_along_axes(graphs, shape, repeats, concats):
    net = graphs.Net(x=shape)
    after, _ = graphs.apply(net.model(net.op("Tile", "x", net.ints(*repeats), name="t"), hp=["t"]), RULE)
    assert graphs.ops(after) == ["Concat"] * concats
    assert all(after.tags.of(node.output[0]).hp for node in after.proto().graph.node)


def test_repeated_images_and_nothing_decline(graphs):
    net = graphs.Net(x=(1, 3, 4, 5))
    outputs = [net.op("Tile", "x", net.ints(*repeats)) for repeats in ((2, 1, 1, 1), (1, 1, 1, 1))]
    _, log = graphs.apply(net.model(*outputs), RULE)
    assert [each.reason.split(":")[0] for each in log.of(RULE).declined] == [
        "it repeats images",
        "it repeats nothing",
    ]
