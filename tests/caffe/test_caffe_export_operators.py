"""ONNX operators as Caffe layers: each computes the same, in nnkit and in OpenCV, or is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from caffe_reference import layers_of, node, onnx_model, reimported, relative_error, run_opencv
from random_network_inputs import random_inputs

from nnkit.caffe.export import export_caffe
from nnkit.errors import ModelError
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import import_onnx

RANDOM = np.random.default_rng(3)


def weights(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.normal(0, 0.5, shape).astype(np.float32)


C = weights(4)
MAP = C.reshape(1, 4, 1, 1)
OPERATORS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], list[str]]] = {
    # operator and variant: nodes, constants, layer types expected
    "conv_bias": (
        [node("Conv", "x w b", pads=[1, 1, 1, 1])],
        {"w": weights(6, 4, 3, 3), "b": weights(6)},
        ["Convolution"],
    ),
    "conv_same": ([node("Conv", "x w", auto_pad="SAME_UPPER")], {"w": weights(6, 4, 3, 3)}, ["Convolution"]),
    "conv_end": (
        [node("Conv", "x w", pads=[1, 1, 0, 0], strides=[2, 2])],
        {"w": weights(6, 4, 3, 3)},
        ["Convolution"],
    ),
    "conv_transpose": (
        [node("ConvTranspose", "x w", strides=[2, 2], pads=[1, 1, 1, 1])],
        {"w": weights(4, 3, 4, 4)},
        ["Deconvolution"],
    ),
    "gemm": (
        [node("Flatten", "x", "f", "flat"), node("Gemm", "f w b", alpha=0.5, beta=2.0)],
        {"w": weights(256, 3), "b": weights(1, 3)},
        ["Flatten", "InnerProduct"],
    ),
    "matmul": ([node("MatMul", "x w")], {"w": weights(8, 5)}, ["InnerProduct"]),
    "batch_norm": (
        [node("BatchNormalization", "x s b m v", epsilon=1e-3)],
        {"s": weights(4), "b": weights(4), "m": weights(4), "v": np.abs(C) + 1},
        ["BatchNorm", "Scale"],
    ),
    "batch_norm_only": (
        [node("BatchNormalization", "x s b m v")],
        {"s": np.ones(4, np.float32), "b": np.zeros(4, np.float32), "m": C, "v": np.abs(C) + 1},
        ["BatchNorm"],
    ),
    "max_pool": ([node("MaxPool", kernel_shape=[2, 2], strides=[2, 2])], {}, ["Pooling"]),
    "max_pool_ceil": ([node("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)], {}, ["Pooling"]),
    "max_pool_end": ([node("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])], {}, ["Pooling"]),
    "average_pool": ([node("AveragePool", kernel_shape=[2, 2], strides=[2, 2])], {}, ["Pooling"]),
    "average_counted": (
        [node("AveragePool", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)],
        {},
        ["Pooling"],
    ),
    "global_pool": ([node("GlobalAveragePool")], {}, ["Pooling"]),
    "relu": ([node("Relu")], {}, ["ReLU"]),
    "leaky": ([node("LeakyRelu", alpha=0.2)], {}, ["ReLU"]),
    "prelu": ([node("PRelu", "x s")], {"s": C.reshape(4, 1, 1)}, ["PReLU"]),
    "prelu_shared": ([node("PRelu", "x s")], {"s": np.float32([0.3])}, ["PReLU"]),
    "relu6": ([node("Clip", "x l h")], {"l": np.float32(0), "h": np.float32(6)}, ["ReLU6"]),
    "clip": ([node("Clip", "x l h")], {"l": np.float32(-0.5), "h": np.float32(0.5)}, ["Clip"]),
    "clip_open": ([node("Clip", "x l")], {"l": np.float32(0)}, ["ReLU"]),
    "sigmoid": ([node("Sigmoid")], {}, ["Sigmoid"]),
    "tanh": ([node("Tanh")], {}, ["TanH"]),
    "elu": ([node("Elu", alpha=0.7)], {}, ["ELU"]),
    "softplus": ([node("Softplus")], {}, ["BNLL"]),
    "abs": ([node("Abs")], {}, ["AbsVal"]),
    "exp": ([node("Exp")], {}, ["Exp"]),
    "neg": ([node("Neg")], {}, ["Power"]),
    "square": ([node("Pow", "x e")], {"e": np.float32(2)}, ["Power"]),
    "add_number": ([node("Add", "x c")], {"c": np.float32([1.5])}, ["Power"]),
    "subtract_from": ([node("Sub", "c x")], {"c": np.float32(1.5)}, ["Power"]),
    "divide_by": ([node("Div", "x c")], {"c": np.float32(4)}, ["Power"]),
    "add_channels": ([node("Add", "x c")], {"c": MAP}, ["Scale"]),
    "mul_channels": ([node("Mul", "x c")], {"c": MAP}, ["Scale"]),
    "sub_channels": ([node("Sub", "c x")], {"c": MAP}, ["Scale"]),
    "mul_positions": ([node("Mul", "x c")], {"c": weights(1, 4, 8, 8)}, ["Scale"]),
    "add_maps": ([node("Relu", "x", "r", "r"), node("Add", "x r")], {}, ["ReLU", "Eltwise"]),
    "sub_maps": ([node("Relu", "x", "r", "r"), node("Sub", "x r")], {}, ["ReLU", "Eltwise"]),
    "mul_maps": ([node("Relu", "x", "r", "r"), node("Mul", "x r")], {}, ["ReLU", "Eltwise"]),
    "div_maps": ([node("Exp", "x", "r", "r"), node("Div", "x r")], {}, ["Exp", "Power", "Eltwise"]),
    "max_maps": ([node("Neg", "x", "r", "r"), node("Max", "x r")], {}, ["Power", "Eltwise"]),
    "gate": ([node("GlobalAveragePool", "x", "g", "g"), node("Mul", "x g")], {}, ["Pooling", "Flatten", "Scale"]),
    "concat": ([node("Relu", "x", "r", "r"), node("Concat", "x r", axis=1)], {}, ["ReLU", "Concat"]),
    "slice": (
        [node("Slice", "x s e a")],
        {"s": np.int64([1, 2]), "e": np.int64([3, 8]), "a": np.int64([1, 2])},
        ["Slice", "Slice", "Silence"],
    ),
    "transpose": ([node("Transpose", perm=[0, 2, 3, 1])], {}, ["Permute"]),
    "reshape": ([node("Reshape", "x s")], {"s": np.int64([1, 2, -1, 8])}, ["Reshape"]),
    "squeeze": (
        [node("GlobalMaxPool", "x", "g", "g"), node("Squeeze", "g a")],
        {"a": np.int64([2, 3])},
        ["Pooling", "Flatten"],
    ),
    "softmax": ([node("Softmax", axis=-1)], {}, ["Softmax"]),
    "upsample": (
        [node("Resize", "x -- s", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
        {"s": np.float32([1, 1, 2, 2])},
        ["Upsample"],
    ),
    "upsample_half_pixel": (
        [node("Resize", "x -- s", mode="nearest")],
        {"s": np.float32([1, 1, 3, 2])},
        ["Upsample"],
    ),
    "interp": (
        [node("Resize", "x -- -- s", mode="linear", coordinate_transformation_mode="align_corners")],
        {"s": np.int64([1, 4, 15, 11])},
        ["Interp"],
    ),
    "mean": ([node("ReduceMean", axes=[2, 3])], {}, ["Pooling"]),
    "sum_all": ([node("ReduceSum", "x a", keepdims=0)], {"a": np.int64([1, 2, 3])}, ["Reduction"]),
    "squares": ([node("ReduceSumSquare", axes=[2, 3])], {}, ["Reduction", "Reshape"]),
    "norm": ([node("ReduceL2", axes=[1, 2, 3], keepdims=0)], {}, ["Reduction", "Power"]),
    "lp_map": ([node("LpNormalization", axis=1)], {}, ["Normalize"]),
    "lp_vector": (
        [node("Flatten", "x", "f", "f"), node("LpNormalization", "f", axis=1)],
        {},
        ["Flatten", "Reshape", "Normalize", "Flatten"],
    ),
    "lrn": ([node("LRN", size=3, alpha=0.1, beta=0.7)], {}, ["LRN"]),
    "tile": ([node("Tile", "x r")], {"r": np.int64([1, 2, 1, 3])}, ["Tile", "Tile"]),
    "sum": ([node("Relu", "x", "r", "r"), node("Sum", "x r x")], {}, ["ReLU", "Eltwise"]),
    "identity": ([node("Identity")], {}, ["Split"]),
}
NOT_IN_OPENCV = {"Upsample", "Interp", "Clip", "Reduction", "Tile", "Slice"}  # of a Slice it gives the first top only


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_become_layers_that_compute_the_same(name: str) -> None:
    nodes, constants, kinds = OPERATORS[name]
    model = onnx_model(nodes, constants)
    files = export_caffe(model)
    found = layers_of(files)
    assert [entry.type for entry in found[1:]] == kinds
    feeds = random_inputs(model, 5)
    expected = FloatSession(model).run(feeds)["y"]
    again = FloatSession(reimported(files)).run(feeds)
    assert again[files.blobs["y"]].shape == expected.shape
    assert relative_error(again[files.blobs["y"]], expected) < 2e-6
    if not NOT_IN_OPENCV.intersection(kinds):
        maker = next(entry.name for entry in found if "y" in entry.top)
        seen = run_opencv(files.prototxt.encode(), files.caffemodel, feeds, {"y": maker})["y"]
        assert relative_error(seen, expected) < 1e-5


def test_networks_of_onnx_in_opencv(shared_dir: Path) -> None:
    for name in ("version-RFB-320.onnx",):
        model = import_onnx(shared_dir / "models/ulfg" / name).model
        files = export_caffe(model)
        feeds = random_inputs(model, 2)
        expected = FloatSession(model).run(feeds)
        makers = {top: entry.name for entry in layers_of(files) for top in entry.top}
        outputs = {files.blobs[value]: makers[files.blobs[value]] for value in expected}
        seen = run_opencv(files.prototxt.encode(), files.caffemodel, feeds, outputs)
        again = FloatSession(reimported(files)).run(feeds)
        for value, array in expected.items():
            assert relative_error(seen[files.blobs[value]], array) < 1e-4
            assert relative_error(again[files.blobs[value]], array) < 1e-5


REFUSED: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], str]] = {
    "uneven": ([node("Conv", "x w", pads=[0, 0, 1, 1])], {"w": weights(6, 4, 3, 3)}, "not the same on both sides"),
    "output_padding": (
        [node("ConvTranspose", "x w", strides=[2, 2], output_padding=[1, 1])],
        {"w": weights(4, 3, 3, 3)},
        "output_padding",
    ),
    "weights": (
        [node("Relu", "w", "r", "r"), node("Conv", "x r")],
        {"w": weights(6, 4, 3, 3)},
        "its weights are not constant",
    ),
    "floor": ([node("MaxPool", kernel_shape=[3, 3], strides=[2, 2])], {}, "rounds its output to 3, Caffe to 4"),
    "dilated": ([node("MaxPool", kernel_shape=[3, 3], dilations=[2, 2])], {}, "dilated"),
    "uncounted": ([node("AveragePool", kernel_shape=[3, 3], pads=[1] * 4)], {}, "counts the padding"),
    "slopes": ([node("PRelu", "x s")], {"s": weights(4, 8, 8)}, "slopes"),
    "exponent": ([node("Pow", "x x")], {}, "no constant number"),
    "broadcast": ([node("GlobalAveragePool", "x", "g", "g"), node("Add", "x g")], {}, "broadcasts"),
    "zero": ([node("Div", "x c")], {"c": np.zeros((1, 4, 1, 1), np.float32)}, "divides by zero"),
    "steps": (
        [node("Slice", "x s e a t")],
        {"s": np.int64([0]), "e": np.int64([8]), "a": np.int64([2]), "t": np.int64([2])},
        "step 1 only",
    ),
    "cubic": ([node("Resize", "x -- s", mode="cubic")], {"s": np.float32([1, 1, 2, 2])}, "mode is cubic"),
    "half_pixel": (
        [node("Resize", "x -- s", mode="linear")],
        {"s": np.float32([1, 1, 2, 2])},
        "bilinear with coordinates half_pixel",
    ),
    "antialiased": (
        [node("Resize", "x -- s", mode="linear", coordinate_transformation_mode="align_corners", antialias=1)],
        {"s": np.float32([1, 1, 0.5, 0.5])},
        "it is antialiased",
    ),
    "fraction": ([node("Resize", "x -- s", mode="nearest")], {"s": np.float32([1, 1, 1.5, 1.5])}, "no whole factor"),
    "neighbours": (
        [node("Resize", "x -- s", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="ceil")],
        {"s": np.float32([1, 1, 2, 2])},
        "other neighbours",
    ),
    "axes": ([node("ReduceSum", "x a")], {"a": np.int64([1])}, "reduces axes [1]"),
    "unknown": ([node("Erf")], {}, "Caffe has no such layer"),
    "even_lrn": ([node("LRN", size=4)], {}, "odd number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_layer_and_the_reason(name: str) -> None:
    nodes, constants, words = REFUSED[name]
    with pytest.raises(ModelError) as caught:
        export_caffe(onnx_model(nodes, constants))
    assert words in str(caught.value)
    assert f"\n  {nodes[-1].name} ({nodes[-1].op_type})" in caught.value.reason
    assert caught.value.remedy


def test_all_refusals_at_once() -> None:
    nodes = [node("Erf", "x", "a", "first"), node("Relu", "a", "b", "r"), node("Erf", "b", "y", "second")]
    with pytest.raises(ModelError) as caught:
        export_caffe(onnx_model(nodes))
    assert "(2):" in caught.value.reason
    assert "\n  first, second (Erf): " in caught.value.reason
