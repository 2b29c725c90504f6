"""DepthToSpace and SpaceToDepth: the blocks, as NumPy turns them, give what ONNX Runtime does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.depth_to_space import read_depth_to_space
from nnkit.graph.refusal import Refused


@pytest.mark.parametrize(
    ("op", "shape", "attributes"),
    [
        ("DepthToSpace", (2, 18, 2, 5), {"blocksize": 3}),
        ("DepthToSpace", (2, 18, 2, 5), {"blocksize": 3, "mode": "CRD"}),
        ("SpaceToDepth", (2, 3, 4, 6), {"blocksize": 2}),
    ],
)
def test_blocks(op: str, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    case = one_node(op, shape, **attributes)
    blocks = read_depth_to_space(case.view, case.node)
    turned = case.x.reshape(blocks.parted).transpose(blocks.order)
    np.testing.assert_array_equal(turned.reshape(case.y.shape), case.y)


@pytest.mark.parametrize(
    ("op", "blocksize", "reason"),
    [("DepthToSpace", 2, "its 18 channels are no multiple"), ("SpaceToDepth", 4, "its map of 6 x 6 is no multiple")],
)
def test_what_makes_no_blocks_is_refused(op: str, blocksize: int, reason: str) -> None:
    case = one_node(op, (1, 18, 6, 6), blocksize=3)
    with pytest.raises(Refused, match=reason):
        read_depth_to_space(case.view, replace(case.node, attributes={"blocksize": blocksize}))
