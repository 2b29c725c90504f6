"""Detectors of key points as exported: places and how visible they are, joined with boxes and classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.toolchain import Toolchain

_CELLS = 120


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_scales_and_values_are_as_predicted(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    """On the cv18xx the outer concatenation's scale goes through the reshape to the parts of the inner one, a sigmoid
    among them, whose scale is another where more than the concatenation reads it, as in a model of all values."""
    net = Net()
    grid = net.constant(net.random.uniform(2.0, 9.0, (1, 1, 2, _CELLS)))
    points = net("Reshape", net("Conv", "x", net.normal(6, 8, 1, 1)), net.ints(1, 2, 3, _CELLS))
    places = net("Mul", net("Slice", points, net.ints(0), net.ints(2), net.ints(2)), grid)
    visible = net("Sigmoid", net("Slice", points, net.ints(2), net.ints(3), net.ints(2)))
    keys = net("Reshape", net("Concat", places, visible, axis=2), net.ints(1, 6, _CELLS))
    boxes = net("Reshape", net("Conv", "x", net.normal(4, 8, 1, 1)), net.ints(1, 4, _CELLS))
    classes = net("Sigmoid", net("Reshape", net("Conv", "x", net.normal(3, 8, 1, 1)), net.ints(1, 3, _CELLS)))
    scaled = net("Mul", boxes, net.constant(net.random.uniform(2.0, 8.0, (1, 1, _CELLS))))
    report = built(net.model([net("Concat", scaled, classes, keys, axis=1, to="all")]), f"chip: {chip}", tmp_path)
    assert refuted(report) == []
