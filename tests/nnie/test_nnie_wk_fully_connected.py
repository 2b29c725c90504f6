"""Records of fully connected layers: where a real file has its zeros, and files written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from nnie_networks import Net
from nnie_wk_files import Numbers, compiled, records_8, records_connected
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.errors import GateFailedError
from nnkit_nnie.gfpq.number_format import Gfpq
from nnkit_nnie.wk.fully_connected import FullyConnectedLayout
from nnkit_nnie.wk.header import read_wk
from nnkit_nnie.wk.records import read_records

MNIST = Path("models", "enet_cityscapes", "inst_mnist_cycle.wk")


def test_a_real_files_layers(shared_dir: Path) -> None:
    """LeNet: 500 outputs of 800 inputs, 10 of 500. What is beyond them is zero; one record has the largest code."""
    wk = read_wk(shared_dir / MNIST)
    records = read_records(wk.data, wk.head_bytes)
    first, last = FullyConnectedLayout(500, 800), FullyConnectedLayout(10, 500)
    own = records[-first.records - last.records :]
    expected = [layout.size_bytes(i) for layout in (first, last) for i in range(layout.records)]
    assert [record.size_bytes for record in own] == expected == [38592] * 10 + [16128, 6208]
    zero = Gfpq(8, 0).zero
    for layout, part in ((first, own[: first.records]), (last, own[first.records :])):
        largest = []
        for index, record in enumerate(part):
            assert record.payload is not None
            codes = layout.read(record.payload, index)
            outputs = layout.outputs_of(index)
            live = outputs.stop - outputs.start
            beyond = np.ones(codes.shape, np.bool_)
            beyond[:live, : layout.inputs] = False
            assert (codes[beyond] == zero).all()
            assert (codes[:live, : layout.inputs] == zero).mean() < 0.05
            largest.append(int(np.where(codes == zero, -1, codes & 0x7F).max()))
        assert max(largest) == 127
        assert len(part) == 1 or sorted(largest)[-2] < 127


@pytest.fixture
def project(tmp_path: Path) -> Path:
    net = Net(3)
    x = net.conv(net.input("image", 3, 8, 8), (3, 2), "first", kernel=1)
    net.fc(net.node("Flatten", [x], "flat"), (2 * 64, 50), "fc")
    return built(net, tmp_path)


def built(net: Net, tmp_path: Path) -> Path:
    """A build of a network that ends in "fc"."""
    (tmp_path / "net.onnx").write_bytes(net.model("fc").onnx_bytes)
    cv2.imwrite(str(tmp_path / "a.png"), np.random.default_rng(1).integers(0, 256, (8, 8, 3), np.uint8))
    (tmp_path / "recipe.yaml").write_text(
        "nnkit: 1\nname: small\nmodel:\n  path: net.onnx\n  inputs:\n    image:\n      preprocess: {color: bgr}\n"
        "      calibration: {images: a.png}\nrestructure: []\n"
        "targets:\n  nnie: {chip: hi3516cv500}\n"
    )
    done = CliRunner().invoke(
        app, ["run", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "out"), "--no-cache"]
    )
    assert done.exit_code == 0, done.output
    return tmp_path


def test_codes_are_compared_without_regard_to_the_order_of_inputs(project: Path) -> None:
    values = {c.name: onnx.numpy_helper.to_array(c) for c in onnx.load(project / "net.onnx").graph.initializer}
    codes, scales = {}, {}
    for name in ("first", "fc"):
        real = values[f"{name}.w"].astype(np.float64)
        scales[name] = Gfpq.for_magnitude(8, float(np.abs(real).max()))
        codes[name] = scales[name].quantize(real)
    s = -(scales["first"].z - 60)
    biases = [round(float(b) * 2.0 ** (s / 16)) for b in values["first.b"]]
    convolution = records_8(Numbers(codes["first"], biases, round(2.0 ** ((42 if s > 176 else 31) - s / 16))))

    def verified(connected: np.ndarray) -> tuple[object, dict[str, int]]:
        data = compiled(
            [("image", (8, 8, 3))], [("fc", (1, 1, 50))], [*convolution, None, *records_connected(connected), None]
        )
        (project / "x.wk").write_bytes(data)
        build = str(project / "out" / "small" / "nnie")
        done = CliRunner().invoke(app, ["verify-wk", build, str(project / "x.wk"), "--json"])
        return done.exception, json.loads(done.stdout)

    turned = codes["fc"].reshape(50, 2, 8, 8).transpose(0, 2, 3, 1).reshape(50, 128)
    error, told = verified(turned)
    assert error is None
    assert (told["codes"], told["codes_equal"]) == (6 + 50 * 128, 6 + 50 * 128)
    assert (told["biases"], told["multipliers"], told["records_unread"]) == (2, 1, 0)
    changed = turned.copy()
    changed[49, 7] ^= 3
    error, told = verified(changed)
    assert isinstance(error, GateFailedError)
    assert told["codes_equal"] == 6 + 50 * 128 - 1
    assert [row["layer"] for row in told["layers"]] == ["fc"]


def test_a_network_without_convolutions(tmp_path: Path) -> None:
    """Its ten records are more than other layers account for, of which there are none."""
    net = Net(3)
    x = net.fc(net.node("Flatten", [net.input("image", 3, 8, 8)], "flat"), (192, 400), "first")
    net.fc(x, (400, 10), "fc")
    built(net, tmp_path)
    values = {c.name: onnx.numpy_helper.to_array(c) for c in onnx.load(tmp_path / "net.onnx").graph.initializer}
    records = []
    for name in ("first", "fc"):
        real = values[f"{name}.w"].astype(np.float64)
        records += records_connected(Gfpq.for_magnitude(8, float(np.abs(real).max())).quantize(real))
    assert len(records) == 10
    (tmp_path / "x.wk").write_bytes(compiled([("image", (8, 8, 3))], [("fc", (1, 1, 10))], records))
    done = CliRunner().invoke(
        app, ["verify-wk", str(tmp_path / "out" / "small" / "nnie"), str(tmp_path / "x.wk"), "--json"]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["codes"], told["codes_equal"]) == (192 * 400 + 4000, 192 * 400 + 4000)
    assert told["records_unread"] == 0
