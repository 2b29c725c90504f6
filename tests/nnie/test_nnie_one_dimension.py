"""Networks over one dimension, as those that hear words are: on the NNIE as maps of height 1."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
from click.testing import Result
from google.protobuf import text_format
from nnie_networks import Net
from typer.testing import CliRunner

from nnkit.caffe.schema import messages
from nnkit.cli import app


def temporal(net: Net, x: str, channels: tuple[int, int], name: str, kernel: int, dilation: int = 1) -> str:
    """A convolution over time that keeps the length."""
    weight = net.weights(f"{name}.w", channels[1], channels[0], kernel)
    bias = net.constant(f"{name}.b", net.random.normal(0.0, 0.1, channels[1]))
    pads = [dilation * (kernel // 2)] * 2
    return net.node("Conv", [x, weight, bias], name, kernel_shape=[kernel], dilations=[dilation], pads=pads)


def run(folder: Path) -> Result:
    """A residual block with dilation, whose result has three dimensions, on float32 files."""
    net = Net(5)
    x = net.input("sound", 6, 20)
    long = temporal(net, net.node("Relu", [temporal(net, x, (6, 8), "a", 5)], "r"), (8, 8), "b", 3, dilation=4)
    total = net.node("Relu", [net.node("Add", [long, temporal(net, x, (6, 8), "short", 1)], "sum")], "s")
    (folder / "net.onnx").write_bytes(net.model(temporal(net, total, (8, 3), "end", 1)).onnx_bytes)
    for index in range(2):
        np.save(folder / f"{index}.npy", np.random.default_rng(index).normal(size=(1, 6, 20)).astype(np.float32))
    (folder / "recipe.yaml").write_text(
        "nnkit: 1\nname: heard\nmodel:\n  path: net.onnx\n  inputs: {sound: {calibration: {images: '*.npy'}}}\n"
        "targets: {nnie: {chip: hi3516cv500, precision_table: false}}\n"
        "verify: {images: '*.npy', gates: {cosine: 0.99}}\n"
    )
    return CliRunner().invoke(app, ["run", str(folder / "recipe.yaml"), "--out", str(folder / "out"), "--no-cache"])


def test_one_segment_and_the_shape_of_the_result_on_the_cpu(tmp_path: Path) -> None:
    """OpenCV computes the emitted pair on the input as a map, and gives ONNX Runtime's numbers of the file."""
    done = run(tmp_path)
    assert done.exit_code == 0, done.output
    build = tmp_path / "out" / "heard" / "nnie"
    report = json.loads((build / "report.json").read_text())
    parts = [(part["runs_on"], part["layers"]) for part in report["details"]["segments"]]
    assert [side for side, _ in parts] == ["nnie", "cpu"]
    assert parts[1][1] == 1
    assert any("other than four dimensions" in note for note in report["details"]["notes"])
    verdicts = {each["how"]: each["mismatches"] for each in report["verify"]["program_vs_artifact"]}
    assert verdicts["caffe"] == verdicts["cpu_c"] == 0
    network = text_format.Parse((build / "artifact" / "heard.prototxt").read_text(), messages.NetParameter())
    assert list(network.layer[0].input_param.shape[0].dim) == [1, 6, 20, 1]
    assert network.layer[-1].name.endswith("_cpu")
    net = cv2.dnn.readNetFromCaffe(*(str(build / "artifact" / f"heard.{end}") for end in ("prototxt", "caffemodel")))
    sound = np.load(tmp_path / "1.npy")
    net.setInput(sound[..., np.newaxis])
    (wanted,) = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(None, {"sound": sound})
    np.testing.assert_allclose(net.forward(), wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
