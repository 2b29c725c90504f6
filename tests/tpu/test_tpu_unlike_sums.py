"""A product beside which a residual path is far larger: the sum is in floating point, and so is the product."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.toolchain import Toolchain


def test_the_chip_model_agrees(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """In INT8 the compiler would give the product 16 bits, of which its readers' scales were taken otherwise."""
    net = Net()
    path = net("Mul", "rows", net.constant(np.full(20, 100.0)), to="path")
    branch = net("MatMul", net("Sigmoid", "rows"), net.normal(20, 20, spread=0.01), to="branch")
    summed = net("Add", path, branch, to="summed")
    report = built(net.model([net("MatMul", summed, net.normal(20, 8), to="last")]), "chip: bm1684x", tmp_path)
    assert refuted(report) == []
    assert any(note.startswith("branch runs in F16") for note in report["quantization_notes"])
