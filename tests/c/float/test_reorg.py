"""Reorg in C, to the bit."""

from __future__ import annotations

from collections.abc import Callable

from segment_networks import uniform

from nnkit.custom_ops import Reorg

Check = Callable[..., None]


def test_reorg_is_exact(agrees: Check) -> None:
    nodes = [Reorg(2).node(["x"], ["reorg"]), Reorg(2, reverse=True).node(["x"], ["back"])]
    agrees(nodes, {"x": uniform(1, 8, 6, 12)}, rtol=0, atol=0)
