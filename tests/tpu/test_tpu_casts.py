"""Factors between precisions, where they lie between two numbers of the chip."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.casts import factor_in
from nnkit_tpu.program import Mode
from nnkit_tpu.toolchain import Toolchain

AN_EVEN_ONE_BELOW = 33.125 + 1 / 64
AN_EVEN_ONE_ABOVE = 33.15625 + 1 / 64


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [
        ("F16", 33.13, 33.125),
        ("F16", AN_EVEN_ONE_BELOW, 33.15625),
        ("F16", AN_EVEN_ONE_BELOW * (1 - 2**-26), 33.15625),
        ("F16", AN_EVEN_ONE_BELOW * (1 - 2**-23), 33.125),
        ("F16", AN_EVEN_ONE_ABOVE, 33.1875),
        ("F16", 7e4, np.inf),
        ("BF16", 33.125, 33.0),
        ("BF16", 33.375, 33.5),
        ("F32", 1 / 3, float(np.float32(1 / 3))),
    ],
)
def test_a_factor_is_a_float32_first(mode: Mode, value: float, expected: float) -> None:
    assert factor_in(value, mode) == expected


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
@pytest.mark.parametrize("factor", [AN_EVEN_ONE_BELOW, AN_EVEN_ONE_ABOVE])
def test_the_chip_model_agrees(tpu_toolchain: Toolchain, tmp_path: Path, chip: str, factor: float) -> None:
    _builds(chip, factor, tmp_path)


def test_the_cv18xx_take_the_even_one(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    _builds("cv181x", 33.125, tmp_path)


def _builds(chip: str, factor: float, folder: Path) -> None:
    """A sum in floating point whose readers multiply it by the factor, to have integers."""
    net = Net()
    twice = net("Add", "rows", "rows", to="twice")
    model = net.model([net("MatMul", twice, net.constant(np.eye(20)), to="last")])
    report = built(model, f"chip: {chip}, tags: {{hp: [twice]}}", folder, largest=127 / factor / 2)
    assert refuted(report) == []
    assert report["status"] == "ok"
