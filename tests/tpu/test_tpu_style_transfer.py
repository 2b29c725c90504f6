"""What networks for styles are made of: reflected padding in integers, and rectified normalisations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.toolchain import Toolchain


@pytest.mark.parametrize(("chip", "form"), [("bm1684x", "f16"), ("bm1688", "s8 "), ("cv181x", "s8 ")])
def test_reflected_padding_has_the_form_that_is_sooner(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, form: str
) -> None:
    net = Net()
    before = net("Conv", "x", net.normal(8, 8, 1, 1))
    padded = net("Pad", before, net.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect", to="padded")
    report = built(net.model([net("Conv", padded, net.normal(4, 8, 3, 3))]), f"chip: {chip}", tmp_path)
    (layer,) = [each for each in report["layers"] if each["name"] == "padded"]
    assert layer["formats"]["output"].startswith(form)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["details"]["prediction"]["disagreements"] == []


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_a_rectified_normalisation_has_all_levels_for_what_is_left(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str
) -> None:
    net = Net()
    before = net("Conv", "x", net.normal(8, 8, 1, 1))
    rows = net("Reshape", before, net.ints(1, 8, 120))
    normal = net("LayerNormalization", rows, net.constant([1.0] * 120), net.constant([0.0] * 120), axis=-1)
    image = net("Reshape", net("Relu", normal, to="left"), net.ints(1, 8, 12, 10))
    report = built(net.model([net("Conv", image, net.normal(4, 8, 3, 3))]), f"chip: {chip}", tmp_path)
    (layer,) = [each for each in report["layers"] if each["name"] == "left"]
    assert layer["formats"]["output"].startswith("u8 " if chip == "bm1684x" else "s8 ")
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["details"]["prediction"]["disagreements"] == []


def test_on_the_cv18xx_normalised_images_are_grouped_with_what_reads_them(
    tpu_toolchain: Toolchain, tmp_path: Path
) -> None:
    net = Net()
    plain = net("InstanceNormalization", "x", net.constant([1.0] * 8), net.constant([0.0] * 8))
    scaled = net("InstanceNormalization", net("Neg", "x"), net.positive(8), net.normal(8))
    for name, normal in (("plain", plain), ("scaled", scaled)):
        net("Conv", net("Relu", normal), net.normal(4, 8, 1, 1), to=name)
    report = built(net.model(["plain", "scaled"]), "chip: cv181x", tmp_path)
    assert refuted(report) == []
    final = next(tmp_path.glob("out/**/compiled/final.mlir")).read_text(encoding="utf-8")
    for kind, count in (("Relu", 1), ("Conv2D", 3)):  # a scale is a convolution
        assert len(re.findall(rf'"tpu.{kind}".*ginfo', final)) == count, kind
