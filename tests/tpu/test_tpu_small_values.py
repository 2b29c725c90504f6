"""Values in F16 that are too small for a factor to integers: what reads them is in F16, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.toolchain import Toolchain


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
@pytest.mark.parametrize("size", [1e-3, 1e-1])
def test_the_chip_model_agrees(tpu_toolchain: Toolchain, tmp_path: Path, chip: str, size: float) -> None:
    """A normalisation with scales of next to nothing: 127 by its range is more than F16 holds, 65504."""
    net = Net()
    normalised = net("LayerNormalization", "rows", net.constant(np.full(20, size / 4)), axis=-1)
    product = net("MatMul", normalised, net.normal(20, 20, spread=0.2), to="product")
    report = built(net.model([net("MatMul", product, net.normal(20, 8), to="last")]), f"chip: {chip}", tmp_path)
    assert refuted(report) == []
    assert report["verify"]["float_vs_program"]["cosine"] > 0.99
    told = any(note.startswith("product runs in F16: it reads values") for note in report["quantization_notes"])
    assert told == (size < 1e-2)
