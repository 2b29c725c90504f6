"""depth_to_space_to_transpose: channels to pixels and back, as a Transpose of blocks."""

from __future__ import annotations

import pytest

RULE = "depth_to_space_to_transpose"


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(graphs, mode):
    net = graphs.Net(x=(1, 8, 3, 5))
    model = net.model(net.op("DepthToSpace", "x", blocksize=2, mode=mode, name="d"), hp=["d"])
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Reshape", "Transpose", "Reshape"]
    assert after.tags.of("d_v").hp


def test_space_to_depth(graphs):
    net = graphs.Net(x=(1, 2, 6, 9))
    after, _ = graphs.apply(net.model(net.op("SpaceToDepth", "x", blocksize=3)), RULE)
    assert graphs.ops(after) == ["Reshape", "Transpose", "Reshape"]
