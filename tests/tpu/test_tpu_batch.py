"""Several images at a time: each as the model of one image computes it, on the vendor's chip models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_project import make_build

from nnkit import pipeline
from nnkit.errors import ModelError
from nnkit_tpu.batch import with_batch
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.program import TpuGraph, TpuPermute, TpuTensor
from nnkit_tpu.toolchain import Toolchain

_SIZE = 32


def network() -> onnx.ModelProto:
    """A convolution, a half of its channels, a sum of both halves, a flattened pool, a fully connected layer."""
    random = np.random.default_rng(7)
    constants = {
        "w": random.normal(0, 0.3, (16, 3, 3, 3)).astype(np.float32),
        "f": random.normal(0, 0.3, (8, 5)).astype(np.float32),
        "zero": np.array([0], np.int64),
        "half": np.array([8], np.int64),
        "all": np.array([16], np.int64),
        "one": np.array([1], np.int64),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Slice", ["r", "zero", "half", "one"], ["a"]),
        helper.make_node("Slice", ["r", "half", "all", "one"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["p"]),
        helper.make_node("Flatten", ["p"], ["v"]),
        helper.make_node("MatMul", ["v", "f"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, _SIZE, _SIZE))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def built(folder: Path, options: str) -> tuple[dict[str, Any], Path]:
    folder.mkdir()
    onnx.save(network(), folder / "net.onnx")
    random = np.random.default_rng(1)
    for index in range(4):
        np.save(folder / f"{index}.npy", random.normal(0, 1, (1, 3, _SIZE, _SIZE)).astype(np.float32))
    (folder / "recipe.yaml").write_text(
        "nnkit: 1\nname: net\nmodel:\n  path: net.onnx\n  inputs: {x: {calibration: {images: '*.npy'}}}\n"
        "calibration: {method: max, corrections: []}\n"
        f"targets:\n  tpu: {{layer_group: quick, {options}}}\nverify: {{images: '*.npy'}}\n",
        encoding="utf-8",
    )
    outcome = pipeline.run(make_build(folder / "recipe.yaml", target="tpu", emulate=True), folder / "out")
    assert outcome.status == "ok"
    report: dict[str, Any] = json.loads((outcome.folder / "report.json").read_text(encoding="utf-8"))
    return report, outcome.folder / "artifact"


@pytest.mark.parametrize(("chip", "model"), [("bm1684x", "net.bmodel"), ("cv181x", "net.cvimodel")])
def test_every_image_of_a_batch_is_as_alone(tpu_toolchain: Toolchain, tmp_path: Path, chip: str, model: str) -> None:
    _, alone = built(tmp_path / "one", f"chip: {chip}")
    report, together = built(tmp_path / "three", f"chip: {chip}, batch: 3")
    assert report["verify"]["program_vs_artifact"][0]["mismatches"] == 0
    assert report["details"]["batch"] == 3
    interface = json.loads((together / "interface.json").read_text(encoding="utf-8"))
    assert interface["inputs"][0]["shape"] == [3, 3, _SIZE, _SIZE]
    assert interface["outputs"][0]["shape"] == [3, 5]
    images = np.random.default_rng(9).normal(0, 1, (3, 1, 3, _SIZE, _SIZE)).astype(np.float32)
    single = [run_on_chip_model(tpu_toolchain, alone / model, chip, {"x": image}) for image in images]
    three = run_on_chip_model(tpu_toolchain, together / model, chip, {"x": np.concatenate(images)})
    for name, values in three.items():
        expected = np.concatenate([each[name].reshape(1, -1) for each in single])
        assert np.array_equal(values.reshape(3, -1), expected)
        assert len(np.unique(expected, axis=0)) == 3, "the images differ"


def test_what_mixes_images_is_refused_with_its_name() -> None:
    tensors = {name: TpuTensor(name, shape) for name, shape in (("x", (1, 4, 2)), ("y", (4, 1, 2)))}
    op = TpuPermute(name="turn", inputs=("x",), output="y", order=(1, 0, 2))
    graph = TpuGraph("net", tensors, (op,), ("x",), ("y",))
    assert with_batch(graph, 1) is graph
    with pytest.raises(ModelError, match="y, turn"):
        with_batch(graph, 2)
