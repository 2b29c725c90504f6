"""Relus behind concatenations and nearest resizes, on the vendor's chip model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.toolchain import Toolchain


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_the_chip_model_agrees(chip: str, tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """The compiler moves them in front itself, and ends without the ranges of what it made, or forgets them."""
    net = Net()
    one, other = net("Conv", "x", net.normal(4, 8, 1, 1)), net("Conv", "x", net.normal(6, 8, 1, 1))
    inside = net("Relu", net("Concat", one, net("Conv", "x", net.normal(2, 8, 1, 1)), axis=1))
    outputs = [
        net("Relu", net("Concat", one, other, axis=1), to="end"),
        net("Conv", inside, net.normal(3, 6, 1, 1), to="inside"),
        net("Relu", net("Resize", other, "", net.constant([1, 1, 2, 2])), to="enlarged"),
    ]
    assert refuted(built(net.model(outputs), f"chip: {chip}", tmp_path)) == []
