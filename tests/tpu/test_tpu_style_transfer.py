"""What networks for styles are made of: reflected padding in integers, and rectified normalisations."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
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


def _rectified_rows(net: Net) -> Model:
    before = net("Conv", "x", net.normal(8, 8, 1, 1))
    rows = net("Reshape", before, net.ints(1, 8, 120))
    normal = net(
        "LayerNormalization", rows, net.constant([1.0] * 120), net.constant([0.0] * 120), axis=-1, to="normal"
    )
    image = net("Reshape", net("Relu", normal, to="left"), net.ints(1, 8, 12, 10))
    return net.model([net("Conv", image, net.normal(4, 8, 3, 3))])


def test_a_rectified_normalisation_has_all_levels_for_what_is_left(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    report = built(_rectified_rows(Net()), "chip: bm1684x", tmp_path)
    (layer,) = [each for each in report["layers"] if each["name"] == "left"]
    assert layer["formats"]["output"].startswith("u8 ")
    assert refuted(report) == []
    assert report["status"] == "ok"


def test_on_the_cv18xx_too(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """Its integers lie around zero there: they reach to half of the largest value, and the ReLU is gone."""
    model = _rectified_rows(Net())
    report = built(model, "chip: cv181x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert "left" not in [layer["name"] for layer in report["layers"]]
    session = FloatSession(model, fetch=["left"])
    largest = max(float(session.run({"x": np.load(tmp_path / f"x_{i}.npy")})["left"].max()) for i in range(3))
    lines = next(tmp_path.glob("out/**/sources/net.cal")).read_text(encoding="utf-8").splitlines()
    (threshold,) = [float(line.split()[1]) for line in lines if line.startswith("normal ")]
    assert threshold == pytest.approx(largest * 127 / 255, rel=2.0**-7)


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
    for kind, count in (("Relu", 0), ("Conv2D", 3)):  # a scale is a convolution; biases stand in for the ReLU
        assert len(re.findall(rf'"tpu.{kind}".*ginfo', final)) == count, kind
