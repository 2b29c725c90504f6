"""Inputs that are drawn lie in the range that is known of each, and are the same every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnkit.drawn_inputs import COUNT, DrawnSamples, drawn_samples
from nnkit.importers import import_onnx
from nnkit.preprocess import Preprocess


def network(
    folder: Path,
    nodes: list[onnx.NodeProto],
    shape: list[int],
    element_type: int = TensorProto.FLOAT,
    **constants: NDArray,
) -> DrawnSamples:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", element_type, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return drawn_samples(import_onnx(path).model, {}, {"x": element_type})


def numbers(samples: DrawnSamples) -> NDArray[np.float32]:
    return np.concatenate([sample.inputs["x"].ravel() for sample in samples])


def test_rows_of_a_table_are_whole_and_in_the_table(tmp_path: Path) -> None:
    table = np.ones((7, 3), np.float32)
    samples = network(tmp_path, [helper.make_node("Gather", ["t", "x"], ["y"])], [1, 9], TensorProto.INT64, t=table)
    assert {*numbers(samples).tolist()} == set(map(float, range(7)))


def test_a_quantised_input_fills_the_range_that_its_file_stores(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    samples = network(tmp_path, nodes, [1, 500], s=np.float32(0.5), z=np.int8(-28))
    drawn = numbers(samples)
    assert (-50.0 <= drawn.min() < -48.0, 75.5 < drawn.max() <= 77.5) == (True, True)


@pytest.mark.parametrize(
    ("element_type", "values"),
    [
        (TensorProto.UINT8, set(range(256))),
        (TensorProto.INT8, set(range(-128, 128))),
        (TensorProto.INT64, set(range(128))),
    ],
)
def test_integers_are_those_of_their_type(element_type: int, values: set[int], tmp_path: Path) -> None:
    cast = helper.make_node("Cast", ["x"], ["c"], to=TensorProto.FLOAT)
    samples = network(tmp_path, [cast, helper.make_node("Relu", ["c"], ["y"])], [1, 500], element_type)
    assert {*numbers(samples).tolist()} == set(map(float, values))


def test_truth_values_are_0_or_1(tmp_path: Path) -> None:
    network(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], [1, 50])
    model = import_onnx(tmp_path / "net.onnx").model
    assert {*numbers(drawn_samples(model, {}, {"x": TensorProto.BOOL})).tolist()} == {0.0, 1.0}


def test_pixels_are_preprocessed(tmp_path: Path) -> None:
    network(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], [1, 3, 40, 40])
    model = import_onnx(tmp_path / "net.onnx").model
    preprocess = Preprocess(color="rgb", mean=(10.0, 20.0, 30.0), scale=(0.5, 0.25, 0.125))
    planes = drawn_samples(model, {"x": preprocess}, {})[0].inputs["x"][0]
    for plane, mean, scale in zip(planes, preprocess.mean, preprocess.scale, strict=True):
        pixels = {*(plane / scale + mean).ravel().tolist()}
        assert pixels <= set(map(float, range(256)))
        assert len(pixels) > 200


def test_other_floats_are_normal_unless_the_network_has_no_numbers_for_them(tmp_path: Path) -> None:
    normal = numbers(network(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], [1, 500]))
    assert abs(float(normal.mean())) < 0.05
    assert abs(float(normal.std()) - 1.0) < 0.05
    roots = numbers(network(tmp_path, [helper.make_node("Sqrt", ["x"], ["y"])], [1, 500]))
    assert (roots.min() >= 0.0, roots.max() <= 1.0) == (True, True)


def test_a_sample_depends_on_its_number_alone(tmp_path: Path) -> None:
    samples = network(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], [1, 5])
    assert len(samples) == COUNT
    np.testing.assert_array_equal(samples[3].inputs["x"], samples[2:4][1].inputs["x"])
    assert len({sample.inputs["x"].tobytes() for sample in samples}) == COUNT
    with pytest.raises(IndexError):
        samples[COUNT]
