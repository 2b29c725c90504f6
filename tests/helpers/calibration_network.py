"""A small network, pictures for it and how it is calibrated in tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate import calibrate
from nnkit.calibrate.stats import CalibrationStats
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.preprocess import Preprocess

RNG = np.random.default_rng(8)
SHAPE = (1, 1, 8, 10)
SETTINGS = Preprocess(mean=(100.0,), scale=(1 / 64,))


def graph_model(
    nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, ...]], weights: dict[str, np.ndarray]
) -> Model:
    output = nodes[-1].output[0]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    specs = tuple(InputSpec(name, shape) for name, shape in inputs.items())
    return Model(proto.SerializeToString(), LayerTags(), specs, (OutputSpec(output, ()),), 17)


def convolutions() -> Model:
    weights = {
        "w1": RNG.standard_normal((4, 1, 3, 3)).astype(np.float32),
        "b1": RNG.standard_normal(4).astype(np.float32),
        "w2": RNG.standard_normal((2, 4, 1, 1)).astype(np.float32),
        "one": np.ones(1, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["conv1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv1"], ["relu1"]),
        helper.make_node("Shape", ["relu1"], ["integers"]),
        helper.make_node("Add", ["one", "one"], ["constant"]),
        helper.make_node("MaxPool", ["relu1"], ["pool1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["pool1", "w2"], ["conv2"]),
        helper.make_node("Mul", ["conv2", "constant"], ["out"]),
    ]
    return graph_model(nodes, {"image": SHAPE}, weights)


def calibrated(model: Model, paths: list[Path], **options: object) -> CalibrationStats:
    return calibrate(model, {"image": paths}, {"image": SETTINGS}, **options)  # type: ignore[arg-type]


def with_bad_files(folder: Path, pictures: list[Path]) -> list[Path]:
    (folder / "s1").mkdir()
    text, empty = folder / "s1" / "text.png", folder / "s1" / "empty.png"
    text.write_text("text")
    empty.touch()
    return [pictures[0], text, *pictures[1:], empty]
