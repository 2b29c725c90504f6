"""split_to_slices: parts of a batch of several, or of a value with many axes."""

from __future__ import annotations

import pytest

RULE = "split_to_slices"


@pytest.mark.parametrize(("shape", "axis", "sizes"), [((3, 4, 5), 0, (1, 2)), ((1, 2, 3, 2, 6, 2), -2, (1, 2, 3))])
def test_every_part_is_a_slice(graphs, shape, axis, sizes):
    net = graphs.Net(x=shape)
    net.op("Split", "x", net.ints(*sizes), name="s", axis=axis, outputs=len(sizes))
    outputs = ["s_v", "s_v1", "s_v2"][: len(sizes)]
    after, _ = graphs.apply(net.model(*outputs, hp=["s"]), RULE)
    assert graphs.ops(after) == ["Slice"] * len(sizes)
    assert all(after.tags.of(name).hp for name in outputs)
    whole, _ = graphs.apply(after, RULE, "slice_inside")
    assert graphs.ops(whole).count("Slice") == len(sizes)
    assert "Reshape" in graphs.ops(whole)


def test_one_image_of_few_axes_stays(graphs):
    net = graphs.Net(x=(1, 4, 5))
    _, log = graphs.apply(net.model(net.op("Split", "x", net.ints(1, 3), axis=1, outputs=2)), RULE)
    assert log.of(RULE).fired == ()
