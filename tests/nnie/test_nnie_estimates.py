"""Estimates of size and time: against what is known of real chips and files, and by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from nnie_networks import Net
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.importers import import_caffe
from nnkit.rewrite import available_rules, restructure
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.estimates import Work, milliseconds, temporary_bytes, wk_bytes, works_of
from nnkit_nnie.limits.context import Division
from nnkit_nnie.segments import divide

DV300, AV100 = CHIPS["hi3516dv300"].speed, CHIPS["hi3559av100"].speed
OTHERS = [Work()]


def conv(outputs: int, inputs: int, kernel: int, side: int, groups: int = 1) -> Work:
    """side: of the square output."""
    return Work(outputs // groups, inputs // groups, kernel * kernel, side * side, groups)


def mobilefacenet() -> list[Work]:
    """Chen et al. 2018, table 1, for 112x112."""
    works = [conv(64, 3, 3, 56), conv(64, 64, 3, 56, 64)]
    inputs = 64
    for expand, outputs, repeats, stride, side in (
        (128, 64, 5, 2, 28),
        (256, 128, 1, 2, 14),
        (256, 128, 6, 1, 14),
        (512, 128, 1, 2, 7),
        (256, 128, 2, 1, 7),
    ):
        for index in range(repeats):
            works.append(conv(expand, inputs, 1, side * (stride if index == 0 else 1)))
            works += [conv(expand, expand, 3, side, expand), conv(outputs, expand, 1, side)]
            inputs = outputs
    return [*works, conv(512, 128, 1, 7), Work(1, 1, 49, 1, 512), conv(128, 512, 1, 1), *OTHERS * 12]


def vgg_ssd() -> list[Work]:
    """Liu et al. 2016, SSD300 for 21 classes."""
    works, inputs = [], 3
    for outputs, repeats, side in ((64, 2, 300), (128, 2, 150), (256, 3, 75), (512, 3, 38), (512, 3, 19)):
        for _ in range(repeats):
            works.append(conv(outputs, inputs, 3, side))
            inputs = outputs
    works += [conv(1024, 512, 3, 19), conv(1024, 1024, 1, 19), conv(256, 1024, 1, 19), conv(512, 256, 3, 10)]
    for outputs, side, after in ((512, 10, 5), (256, 5, 3), (256, 3, 1)):
        works += [conv(128, outputs, 1, side), conv(256, 128, 3, after)]
    for inputs, side, boxes in ((512, 38, 4), (1024, 19, 6), (512, 10, 6), (256, 5, 6), (256, 3, 4), (256, 1, 4)):
        works += [conv(4 * boxes, inputs, 3, side), conv(21 * boxes, inputs, 3, side)]
    return [*works, *OTHERS * 30]


def googlenet() -> list[Work]:
    """Szegedy et al. 2015, table 1."""
    works = [conv(64, 3, 7, 112), conv(64, 64, 1, 56), conv(192, 64, 3, 56)]
    for inputs, side, one, (reduce3, three), (reduce5, five), pooled in (
        (192, 28, 64, (96, 128), (16, 32), 32),
        (256, 28, 128, (128, 192), (32, 96), 64),
        (480, 14, 192, (96, 208), (16, 48), 64),
        (512, 14, 160, (112, 224), (24, 64), 64),
        (512, 14, 128, (128, 256), (24, 64), 64),
        (512, 14, 112, (144, 288), (32, 64), 64),
        (528, 14, 256, (160, 320), (32, 128), 128),
        (832, 7, 256, (160, 320), (32, 128), 128),
        (832, 7, 384, (192, 384), (48, 128), 128),
    ):
        works += [conv(one, inputs, 1, side), conv(reduce3, inputs, 1, side), conv(three, reduce3, 3, side)]
        works += [conv(reduce5, inputs, 1, side), conv(five, reduce5, 5, side), conv(pooled, inputs, 1, side)]
    return [*works, conv(1000, 1024, 1, 1), *OTHERS * 25]


@pytest.mark.parametrize(
    ("works", "speed", "known"),
    [
        (mobilefacenet(), DV300, 10.0),
        (mobilefacenet(), AV100, 14.0),
        (vgg_ssd(), AV100, 89.0),
        (googlenet(), AV100, 10.0),
    ],
)
def test_public_measurements_are_met(works: list[Work], speed, known: float):
    assert milliseconds(works, speed, compressed=True) == pytest.approx(known, rel=0.03)


def test_the_compiled_networks_at_hand(shared_dir: Path):
    """RetinaFace at 640: folded in 8 bits, as it is in 16; LeNet is not fitted."""
    stem = shared_dir / "models/retinaface_mnet/retinaface_mnet"
    model = import_caffe(stem.with_suffix(".prototxt"), stem.with_suffix(".caffemodel")).model
    rules = available_rules()
    folded = restructure(model, [rules["fold_batch_norm"], rules["fold_scale"]], check_inputs=[])[0]
    for given, bits, known_ms, known_bytes, error in (
        (folded, 8, 17.0, 2_117_104, 0.01),
        (model, 16, 34.0, 2_911_520, 0.01),
    ):
        network = divide(given, Division("hi3516dv300", compile_mode=1))
        works = works_of(network, network.layers, lambda layer, bits=bits: bits)
        assert milliseconds(works, DV300, compressed=True) == pytest.approx(known_ms, rel=0.03)
        assert wk_bytes(works, 10, compressed=True) == pytest.approx(known_bytes, rel=error)
    lenet = [Work(20, 1, 25, 576), Work(50, 20, 25, 64), Work(500, 800, 1, 1), Work(10, 500, 1, 1), *OTHERS * 5]
    size = (shared_dir / "models/enet_cityscapes/inst_mnist_cycle.wk").stat().st_size
    assert wk_bytes(lenet, 2, compressed=True) == pytest.approx(size, rel=0.01)


def test_records_by_hand():
    """A depthwise channel of 3x3 has a record of 640 bytes, of which 9 codes and 16 bytes of its head are its own."""
    depthwise = Work(1, 1, 9, 100, 5)
    assert depthwise.products == 5 * 64 * 9 * 100
    assert depthwise.weight_bytes(compressed=False) == 5 * (640 + 78)
    assert depthwise.weight_bytes(compressed=True) == pytest.approx(5 * (25 + 0.146 * 615 + 78))
    dense = Work(4, 16, 1, 1, 1, 8)
    assert dense.products == 64
    assert dense.weight_bytes(compressed=False) == dense.weight_bytes(compressed=True) == 128 + 78
    assert Work(4, 16, 1, 1, 1, 16).products == 128
    assert Work().weight_bytes(compressed=True) == Work().products == 0
    assert Work(channels=64).weight_bytes(compressed=True) == 64 * 33


def test_temporary_memory_by_hand():
    """conv1 of 4 x 10 x 20 is alive with conv2 and conv3: lines of 32 bytes; in 16 bits of 48."""
    net = Net()
    one = net.conv(net.input("data", 3, 10, 20), (3, 4), "conv1")
    two = net.conv(one, (4, 2), "conv2")
    last = net.node("Concat", [net.conv(one, (4, 3), "conv3"), two], "both", axis=1)
    network = divide(net.model(last), Division("hi3516dv300", compile_mode=2))
    at_once = (4 * 32 + 2 * 32 + 3 * 32) * 10
    assert temporary_bytes(network, lambda layer: 8) == at_once
    assert temporary_bytes(network, lambda layer: 16 if layer.name == "conv2" else 8) == at_once + 4 * 16 * 10


def test_estimates_are_in_the_plan_and_in_the_report(tmp_path: Path):
    net = Net()
    x = net.conv(net.node("Relu", [net.conv(net.input("data", 3, 16, 16), (3, 8), "one")], "relu"), (8, 8), "two")
    (tmp_path / "net.onnx").write_bytes(net.model(net.conv(x, (8, 4), "three")).onnx_bytes)
    np.save(tmp_path / "a.npy", np.ones((1, 3, 16, 16), np.float32))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "nnkit: 1\nname: net\nmodel: {path: net.onnx, inputs: {data: {calibration: {images: a.npy}}}}\n"
        "targets: {nnie: {chip: hi3516cv500}}\nverify: {images: a.npy}\n"
    )

    def told(*command: str) -> str:
        return CliRunner().invoke(app, [*command, str(recipe)]).stdout

    assert "ms on the NNIE (scaled from another chip)" in told("plan")
    planned = json.loads(told("plan", "--json"))["estimates"]
    assert "estimated" in told("run", "--out", str(tmp_path / "out"))
    report = json.loads((tmp_path / "out/net/nnie/report.json").read_text())
    details = report["details"]
    by_layer = [layer["milliseconds"] for layer in report["layers"] if "milliseconds" in layer]
    assert len(by_layer) >= 3
    assert sum(by_layer) == pytest.approx(details["estimate"]["milliseconds"], abs=1e-3)
    assert details["estimate"] == {name: value for name, value in planned.items() if name != "line"}
    assert details["estimate"]["estimated"] is True
    rows = {row["choice"]: row["estimate"] for row in details["precision"]}
    assert rows["all"]["milliseconds"] > rows["no_hp"]["milliseconds"] > 0
    assert any(line.endswith(" ms") for line in details["summary"])
