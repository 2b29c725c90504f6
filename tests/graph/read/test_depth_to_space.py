"""DepthToSpace and SpaceToDepth: the blocks, as NumPy turns them, give what ONNX Runtime does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.depth_to_space import read_depth_to_space


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
