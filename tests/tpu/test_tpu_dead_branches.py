"""Branches that training has switched off: convolutions that read next to nothing, or give what they do not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.toolchain import Toolchain


@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_that_reads_next_to_nothing_is_as_predicted(
    tpu_toolchain: Toolchain, tmp_path: Path, bias: bool
) -> None:
    net = Net()
    live = net("Conv", "x", net.normal(8, 8, 1, 1))
    dead = net("Relu", net("Conv", live, net.constant(net.random.normal(0, 1e-6, (8, 8, 1, 1)))))
    more = [net.normal(8)] if bias else []
    revived = net("Conv", dead, net.normal(8, 8, 3, 3), *more, pads=[1, 1, 1, 1], to="revived")
    scaled = net("Mul", live, net.constant(np.full(1, 1e-7)))
    faint = net("Conv", scaled, net.normal(8, 8, 1, 1), *more, to="faint")
    report = built(net.model([revived, faint]), "chip: bm1684x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_a_class_token_in_front_of_rows_is_as_predicted(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    """A constant part is a convolution of zeros with a bias, which alone gives the factor on the cv18xx."""
    net = Net()
    token = net.random.normal(0, 0.02, (1, 1, 20))
    token[0, 0, :4] = 3e-5, -4e-6, 1e-9, 0.0
    joined = net("Concat", net.constant(token), "rows", axis=1, to="joined")
    report = built(net.model([net("MatMul", joined, net.normal(20, 6), to="last")]), f"chip: {chip}", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
