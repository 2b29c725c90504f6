"""Images enlarged by a cubic filter, and what is added to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.toolchain import Toolchain


@pytest.mark.parametrize("options", ["chip: bm1684x", "chip: bm1688, precision: f16"])
def test_a_residual_on_a_cubic_enlargement_is_added_before_it_is_spread(
    tpu_toolchain: Toolchain, tmp_path: Path, options: str
) -> None:
    net = Net()
    image = net("Conv", "x", net.normal(3, 8, 1, 1))
    scales = net.constant([1.0, 1.0, 2.0, 2.0])
    larger = net("Resize", image, "", scales, mode="cubic")
    residual = net("Conv", "x", net.normal(12, 8, 3, 3), pads=[1, 1, 1, 1])
    spread = net("DepthToSpace", residual, blocksize=2, mode="CRD")
    report = built(net.model([net("Relu", net("Add", spread, larger), to="sum")]), options, tmp_path)
    kinds = [layer["op"] for layer in report["layers"]]
    assert kinds.count("permute") == 1
    assert kinds.count("pad") == ("f16" in options)
    assert kinds.index("binary") < kinds.index("permute")
    assert refuted(report) == []
    assert report["status"] == "ok"
