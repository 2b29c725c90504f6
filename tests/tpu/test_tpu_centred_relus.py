"""What a ReLU gives on the cv18xx: around zero where only layers with weights read it, which no padding feeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.toolchain import Toolchain

Build = Callable[[Net], None]


def conv(net: Net, source: str, channels: int, *, size: int = 1, inputs: int = 8, to: str = "", **more: Any) -> str:
    weight = net.normal(channels, inputs // more.get("group", 1), size, size)
    return net("Conv", source, weight, net.normal(channels), to=to, **more)


def relu(net: Net, source: str) -> str:
    return net("Relu", source)


def padded(net: Net, to: str = "") -> str:
    """[1, 8, 12, 10], of a convolution by 3."""
    return conv(net, "x", 8, size=3, pads=[1, 1, 1, 1], to=to)


def depthwise_then_pointwise(net: Net) -> None:
    first = relu(net, padded(net, "a"))
    second = relu(net, conv(net, first, 8, size=3, group=8, to="b"))
    conv(net, second, 4, to="y")


def limited(net: Net) -> None:
    least, most = net.constant(0.0), net.constant(0.5)
    conv(net, net("Clip", padded(net, "a"), least, most), 4, to="y")


def moved(net: Net) -> None:
    value = relu(net, padded(net, "a"))
    pool = net("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
    scales = net.constant([1, 1, 2, 2])
    larger = net("Resize", pool, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric")
    wide = net("Pad", larger, net.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect")
    part = net("Slice", value, net.ints(1), net.ints(7), net.ints(2))
    first = conv(net, wide, 4, size=3)
    second = conv(net, net("Transpose", part, perm=[0, 1, 3, 2]), 4)
    net("Concat", net("Flatten", first), net("Flatten", second), axis=1, to="y")


def products(net: Net) -> None:
    value = relu(net, conv(net, "x", 8, size=3, strides=[3, 3], to="a"))
    hidden = net("Gemm", net("Flatten", value), net.normal(96, 20), net.normal(20), to="b")
    net("Gemm", relu(net, hidden), net.normal(20, 5), to="y")


def normalised(net: Net) -> None:
    ones, zeros = net.constant([1.0] * 8), net.constant([0.0] * 8)
    value = relu(net, net("InstanceNormalization", padded(net), ones, zeros))
    conv(net, net("Pad", value, net.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect"), 4, size=3, to="y")


def without_bias(net: Net) -> None:
    net("Conv", relu(net, net("Conv", "x", net.normal(8, 8, 3, 3), to="a")), net.normal(4, 8, 1, 1), to="y")


def three_in_a_row(net: Net) -> None:
    """By 1: a ReLU of either of two keeps the compiler from making one of both."""
    first = relu(net, conv(net, "x", 8, to="a"))
    second = relu(net, conv(net, first, 8, to="kept"))
    conv(net, second, 4, to="y")


def in_front_of_a_linear_one(net: Net) -> None:
    conv(net, relu(net, conv(net, "x", 8, to="kept")), 4, to="y")


def behind_a_linear_one(net: Net) -> None:
    narrow = conv(net, "x", 2)
    wide = relu(net, conv(net, narrow, 32, inputs=2, to="kept"))
    conv(net, wide, 32, size=3, inputs=32, group=32, to="y")


def read_by_two(net: Net) -> None:
    first = relu(net, conv(net, "x", 8, to="a"))
    net("Add", conv(net, first, 4), conv(net, first, 4), to="y")


def padded_with_zeros(net: Net) -> None:
    conv(net, relu(net, padded(net, "kept")), 4, size=3, pads=[1, 1, 1, 1], to="y")


def added(net: Net) -> None:
    value = relu(net, padded(net, "kept"))
    net("Add", conv(net, value, 8), value, to="y")


def averaged(net: Net) -> None:
    conv(net, net("GlobalAveragePool", relu(net, padded(net, "kept"))), 4, to="y")


CENTRED: Mapping[Build, set[str]] = {
    depthwise_then_pointwise: {"a", "b"},
    limited: {"a"},
    moved: {"a"},
    products: {"a", "b"},
    without_bias: {"a"},
    three_in_a_row: {"a"},
    in_front_of_a_linear_one: set(),
    behind_a_linear_one: set(),
    read_by_two: {"a"},
    padded_with_zeros: set(),
    added: set(),
    averaged: set(),
}


def _by_layer(report: Mapping[str, Any]) -> Mapping[str, str]:
    return {layer["name"]: layer["formats"]["output"] for layer in report["layers"]}


@pytest.mark.parametrize(("build", "centred"), list(CENTRED.items()), ids=[each.__name__ for each in CENTRED])
def test_as_on_the_chip_model(tpu_toolchain: Toolchain, tmp_path: Path, build: Build, centred: set[str]) -> None:
    net = Net()
    build(net)
    report = built(net.model(["y"]), "chip: cv181x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999
    formats = _by_layer(report)
    moved_to = {value for value in ("a", "b", "kept") if "zero at -128" in formats.get(value, "")}
    assert moved_to == centred


def test_a_normalisation_has_no_rectifier_of_its_own(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    net = Net()
    normalised(net)
    report = built(net.model(["y"]), "chip: cv181x", tmp_path)
    assert refuted(report) == []
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999
    assert [each for each in report["layers"] if "zero at -128" in each["formats"]["output"]]
    assert not re.findall(
        r'"tpu.Relu"', next(tmp_path.glob("out/**/compiled/final.mlir")).read_text(encoding="utf-8")
    )


def test_steps_are_half_as_large(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """255 instead of 127 of them for the same range; errors of a layer are those against the float network."""
    steps = {}
    for name, build in (("centred", without_bias), ("plain", padded_with_zeros)):
        net, folder = Net(), tmp_path / name
        folder.mkdir()
        build(net)
        report = built(net.model(["y"]), "chip: cv181x", folder)
        formats = _by_layer(report)
        steps[name] = float(formats["a" if name == "centred" else "kept"].split()[2].rstrip(","))
    assert steps["centred"] < 0.7 * steps["plain"]


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_chips_with_unsigned_values_need_none(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    net = Net()
    without_bias(net)
    report = built(net.model(["y"]), f"chip: {chip}", tmp_path)
    assert _by_layer(report)["a"].startswith("u8 ")
