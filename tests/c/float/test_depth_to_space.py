"""DepthToSpace and SpaceToDepth in C against ONNX Runtime, to the bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


@pytest.mark.parametrize(
    ("block", "shape"), [(2, (1, 12, 3, 5)), (3, (2, 18, 2, 1)), (1, (1, 3, 4, 5)), (2, (1, 4, 1, 1))]
)
def test_depth_to_space_is_exact(agrees: Check, block: int, shape: tuple[int, ...]) -> None:
    nodes = [
        node("DepthToSpace", ["x"], ["default"], blocksize=block),
        node("DepthToSpace", ["x"], ["dcr"], blocksize=block, mode="DCR"),
        node("DepthToSpace", ["x"], ["crd"], blocksize=block, mode="CRD"),
    ]
    agrees(nodes, {"x": normal(*shape)}, rtol=0, atol=0)


@pytest.mark.parametrize(("block", "shape"), [(2, (1, 3, 4, 6)), (3, (2, 2, 6, 3))])
def test_space_to_depth_is_exact(agrees: Check, block: int, shape: tuple[int, ...]) -> None:
    agrees([node("SpaceToDepth", ["x"], ["y"], blocksize=block)], {"x": normal(*shape)}, rtol=0, atol=0)
