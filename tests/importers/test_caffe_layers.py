"""Every Caffe layer type: against OpenCV where it has the layer, else against its definition in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from caffe_reference import relative_error, run_opencv
from numpy.typing import NDArray

from benchmarks.caffe_corpus import Case, cases, layer
from nnkit.custom_ops import register_schemas
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import caffe_model

Array = NDArray[Any]
CASES = {case.name: case for case in cases()}
SAME_ARITHMETIC = 1e-5
"""float32 sums in another order; the deepest sum has 396 terms."""


def imported(case: Case) -> Model:
    return caffe_model(case.prototxt().encode(), case.caffemodel() if case.weights else b"").model


def run(case: Case) -> dict[str, Array]:
    return FloatSession(imported(case)).run(case.feeds())


@pytest.mark.parametrize("name", CASES)
def test_graph_is_valid_and_its_shapes_are_those_that_onnx_infers(name: str) -> None:
    register_schemas()
    proto = imported(CASES[name]).proto()
    onnx.checker.check_model(proto, full_check=True)
    declared = {value.name: value for value in (*proto.graph.value_info, *proto.graph.output)}
    del proto.graph.value_info[:]
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    for value in inferred.graph.value_info:
        assert value.type == declared[value.name].type, value.name


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.opencv])
def test_computes_what_opencv_computes(name: str) -> None:
    case = CASES[name]
    proto = imported(case).proto()
    makers = {value: node.name for node in proto.graph.node for value in node.output}
    outputs = {output.name: makers[output.name] for output in proto.graph.output}
    weights = case.caffemodel() if case.weights else b""
    found = run(case)
    if len(outputs) == 1:  # of several outputs OpenCV gives no names that could be asked for
        expected = run_opencv(case.prototxt().encode(), weights, case.feeds(), outputs)
        for blob in outputs:
            assert relative_error(found[blob], expected[blob]) < SAME_ARITHMETIC
    else:
        assert_parts(case, found)


def assert_parts(case: Case, found: dict[str, Array]) -> None:
    """Slices and splits, written out."""
    x = case.feeds()["data"]
    expected = {
        "slice": {"a": x[:, :1], "b": x[:, 1:3], "c": x[:, 3:]},
        "slice_even": {"a": x[:, :2], "b": x[:, 2:]},
        "split": {"b": x, "c": np.maximum(x, 0)},
    }[case.name]
    assert {key: array.tolist() for key, array in found.items()} == {k: v.tolist() for k, v in expected.items()}


def _x(case: Case) -> NDArray[np.float64]:
    return case.feeds()["data"].astype(np.float64)


def _bilinear(x: Array, height: int, width: int) -> Array:
    """Corners aligned."""
    result = np.zeros((*x.shape[:2], height, width))
    for i in range(height):
        for j in range(width):
            y, z = i * (x.shape[2] - 1) / (height - 1), j * (x.shape[3] - 1) / (width - 1)
            for row in range(x.shape[2]):
                for column in range(x.shape[3]):
                    weight = max(0.0, 1 - abs(y - row)) * max(0.0, 1 - abs(z - column))
                    result[:, :, i, j] += weight * x[:, :, row, column]
    return result


def _depthwise(case: Case) -> Array:
    x, (weights, bias) = np.pad(_x(case), ((0, 0), (0, 0), (1, 1), (1, 1))), case.arrays()["op"]
    result = np.zeros((1, 4, 9, 11)) + bias[None, :, None, None]
    for i in range(3):
        for j in range(3):
            result += weights[None, :, 0, i, j, None, None] * x[:, :, i : i + 9, j : j + 11]
    return result


def _pyramid(case: Case) -> Array:
    """Levels of 1, 2 and 4 bins a side over 9 x 11: windows ceil(side / bins), padded by half of what is too much."""
    x, parts = _x(case), []
    for bins in (1, 2, 4):
        level = np.empty((4, bins, bins))
        kernel = [-(-9 // bins), -(-11 // bins)]
        pad = [(kernel[0] * bins - 9 + 1) // 2, (kernel[1] * bins - 11 + 1) // 2]
        for i in range(bins):
            for j in range(bins):
                top, left = i * kernel[0] - pad[0], j * kernel[1] - pad[1]
                window = x[0, :, max(top, 0) : top + kernel[0], max(left, 0) : left + kernel[1]]
                level[:, i, j] = window.max(axis=(1, 2))
        parts.append(level.reshape(-1))
    return np.concatenate(parts)[None]


def _local(case: Case, k: float) -> Array:
    x, square = _x(case), np.pad(_x(case) ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    sums = square[:, :-2] + square[:, 1:-1] + square[:, 2:]
    return x / (k + 0.1 / 3 * sums) ** 0.75


def _w(case: Case, index: int = 0) -> Array:
    return case.arrays()["op"][index].astype(np.float64)


DEFINITIONS: dict[str, Callable[[Case], Array]] = {
    "DepthwiseConvolution": _depthwise,
    "ConvolutionDepthwise": _depthwise,
    "DepthwiseConv": _depthwise,
    "inner_product_transposed": lambda c: _x(c) @ _w(c) + _w(c, 1),
    "spp": _pyramid,
    "rrelu": lambda c: np.where(_x(c) > 0, _x(c), _x(c) * 0.2),
    "crelu": lambda c: np.maximum(np.concatenate([_x(c), -_x(c)], axis=1), 0),
    "clip": lambda c: np.clip(_x(c), -0.5, 1),
    "threshold": lambda c: (_x(c) > 0.3).astype(float),
    "log": lambda c: np.log10(2 * _x(c) + 1),
    "scale_axes": lambda c: _x(c) * _w(c) + _w(c, 1),
    "bias": lambda c: _x(c) + _w(c)[:, None, None],
    "reshape_axis": lambda c: _x(c).reshape(1, 4, 3, 3, 11),
    "tile": lambda c: np.concatenate([_x(c)] * 3, axis=1),
    "reduction_SUM": lambda c: 0.5 * _x(c).sum(axis=(1, 2, 3)),
    "reduction_ASUM": lambda c: 0.5 * np.abs(_x(c)).sum(axis=(1, 2, 3)),
    "reduction_SUMSQ": lambda c: 0.5 * (_x(c) ** 2).sum(axis=(1, 2, 3)),
    "reduction_MEAN": lambda c: 0.5 * _x(c).mean(axis=(1, 2, 3)),
    "argmax": lambda c: _x(c).argmax(axis=1)[:, None],
    "upsample": lambda c: _x(c).repeat(2, axis=2).repeat(2, axis=3),
    "interp": lambda c: _bilinear(_x(c), 17, 5),
    "interp_zoom": lambda c: _bilinear(_x(c), 17, 21),
    "pass_through": lambda c: _x(c).reshape(1, 4, 4, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 16, 4, 3),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_computes_its_definition(name: str) -> None:
    case, expected = CASES[name], DEFINITIONS[name](CASES[name])
    found = run(case)["out"]
    assert found.shape == expected.shape
    assert relative_error(found, expected) < SAME_ARITHMETIC


def test_response_normalisation_with_k() -> None:
    body = layer("LRN", "lrn_param { local_size: 3 alpha: 0.1 beta: 0.75 k: 2 }")
    case = Case("lrn_k", body)
    assert relative_error(run(case)["out"], _local(case, 2.0)) < SAME_ARITHMETIC


def test_average_over_windows_that_reach_beyond_the_padding() -> None:
    """9 numbers, kernel 4, stride 3, pad 1: the last window covers 8..12, of which one is input and one padding."""
    x = np.arange(1, 10, dtype=np.float32)
    case = Case(
        "pool",
        layer("Pooling", "pooling_param { pool: AVE kernel_h: 1 kernel_w: 4 stride_h: 1 stride_w: 3 pad_w: 1 }"),
        {"data": (1, 1, 1, 9)},
    )
    found = FloatSession(imported(case)).run({"data": x.reshape(1, 1, 1, 9)})["out"].ravel()
    # windows -1..2, 2..5, 5..8, 8..11 -> the last is cut at 10, the end of the padding
    assert found.tolist() == [6 / 4, (3 + 4 + 5 + 6) / 4, (6 + 7 + 8 + 9) / 4, 9 / 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (layer("Convolution", "convolution_param { num_output: 6 kernel_size: 3 }"), "no weights for it"),
        (layer("Convolution", "convolution_param { num_output: 6 }"), "no kernel_size"),
        (layer("Convolution", "convolution_param { kernel_size: 3 }"), "no num_output"),
        (layer("Convolution", "convolution_param { num_output: 6 kernel_size: 3 stride: 0 }"), "stride is 0"),
        (layer("Convolution", "convolution_param { num_output: 6 kernel_size: 3 group: 3 }"), "does not divide"),
        (layer("Convolution", "convolution_param { num_output: 6 kernel_size: 30 kernel_h: 2 }"), "both kernel_size"),
        (layer("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }"), "stochastic"),
        (layer("Pooling", "pooling_param { kernel_size: 2 stride: 5 pad: 2 }"), "would see no input"),
        (layer("Power", "power_param { scale: 0 }"), "constant"),
        (layer("Softmax", "softmax_param { axis: 7 }"), "axis 7 does not exist"),
        (layer("Concat", bottoms="data other"), "do not fit"),
        (layer("Eltwise", bottoms="data other"), "different shapes"),
        (layer("Reshape", "reshape_param { shape { dim: 5 dim: -1 } }"), "cannot become"),
        (layer("Reshape", "reshape_param { shape { dim: 2 } }"), "numbers of values differ"),
        (layer("Permute", "permute_param { order: 0 order: 0 }"), "does not fit"),
        (layer("Slice", "slice_param { slice_point: 9 }", tops="a b"), "do not ascend"),
        (layer("Crop", "crop_param { offset: 9 }", bottoms="data data"), "is not within"),
        (layer("Upsample"), "no scale"),
        (layer("Interp"), "output size is not given"),
        (layer("Custom"), "1 tops and 0 shapes"),
        (layer("PassThrough", "passthrough_param { block_height: 2 block_width: 2 }"), "divides"),
        (layer("Tile", "tile_param { tiles: 200000000 }"), "would have shape"),
        (layer("ReLU", bottoms="data other"), "2 bottoms"),
        (layer("LSTM"), "recurrent"),
        (layer("Convolutional"), "not known"),
    ],
)  # fmt: skip
def test_refusals_name_the_layer_and_the_reason(text: str, words: str) -> None:
    case = Case("refused", text, {"data": (1, 4, 9, 11), "other": (1, 3, 8, 8)})
    with pytest.raises(ModelError) as caught:
        imported(case)
    assert words in caught.value.reason
    assert "\n  line 4: op (" in caught.value.reason
    assert caught.value.where == "prototxt"
    assert caught.value.remedy


def test_all_refusals_at_once() -> None:
    text = layer("Convolutional", name="a", tops="x") + layer("ReLU", name="b", bottoms="x", tops="y")
    text += layer("LSTM", name="c", tops="z") + layer("Upsample", name="d", tops="w")
    with pytest.raises(ModelError) as caught:
        imported(Case("refused", text))
    lines = caught.value.reason.splitlines()
    assert lines[0] == "the network has layers that cannot be imported (3):"
    assert [line.split(": ")[1].split(" ")[0] for line in lines[1:]] == ["a", "c", "d"]
    assert "did you mean 'Convolution'?" in lines[1]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([(6, 4, 5, 5), (6,)], "weight has shape [6, 4, 5, 5] in the caffemodel, the prototxt asks for [6, 4, 3, 3]"),
        ([(6, 4, 3, 3)], "its bias is missing"),
        ([(6, 4, 3, 3), (6,), (6,)], "3 arrays for it, the prototxt asks for 2"),
    ],
)
def test_weights_of_another_network(weights: list[tuple[int, ...]], words: str) -> None:
    body = layer("Convolution", "convolution_param { num_output: 6 kernel_size: 3 }")
    with pytest.raises(ModelError) as caught:
        imported(Case("conv", body, weights={"op": weights}))
    assert words in caught.value.reason


def test_every_layer_type_has_a_case() -> None:
    from nnkit.caffe.layers.table import LAYERS

    written = "".join(case.body for case in CASES.values())
    assert [kind for kind in LAYERS if f'type: "{kind}"' not in written] == []
