"""Which values follow from others, on graphs written out by hand, and that calibration gives what fetching gives."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate import Extremes, calibrate
from nnkit.calibrate.all_values import AllValues, activation_values
from nnkit.calibrate.derived import derived_values
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.graph.onnx_runtime import FloatSession

SHAPE = (1, 4, 4, 6)


def _model(nodes: list[onnx.NodeProto], output: str) -> Model:
    weights = [
        numpy_helper.from_array(np.array([1, 24, 4], np.int64), "shape"),
        numpy_helper.from_array(np.array([0], np.int64), "axes"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        weights,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return Model(proto.SerializeToString(), LayerTags(), (InputSpec("x", SHAPE),), (OutputSpec(output, ()),), 17)


def _many() -> Model:
    return _model(
        [
            helper.make_node("Neg", ["x"], ["a"]),
            helper.make_node("Transpose", ["a"], ["turned"], perm=[0, 2, 3, 1]),
            helper.make_node("Relu", ["turned"], ["rectified"]),
            helper.make_node("Relu", ["a"], ["again"]),
            helper.make_node("Reshape", ["rectified", "shape"], ["reshaped"]),
            helper.make_node("Relu", ["reshaped"], ["thrice"]),
            helper.make_node("Unsqueeze", ["thrice", "axes"], ["wider"]),
            helper.make_node("Shape", ["wider"], ["integers"]),
            helper.make_node("Identity", ["integers"], ["same_integers"]),
            helper.make_node("Identity", ["x"], ["input_again"]),
            helper.make_node("Mul", ["wider", "wider"], ["y"]),
        ],
        "y",
    )


def test_moves_and_relus() -> None:
    proto = _many().proto()
    found = derived_values(proto.graph, activation_values(proto))
    assert found.rectified == {"rectified": "a"}  # a Relu behind a move rectifies what was moved
    assert found.same == {
        "turned": "a",
        "again": "rectified",
        "reshaped": "rectified",
        "thrice": "rectified",
        "wider": "rectified",
        "same_integers": "integers",
        "input_again": "x",
    }
    assert found.root("wider") == found.root("turned") == "a"
    assert found.root("y") == "y"
    assert "y" not in found


def test_operators_of_other_domains_are_not_taken_for_standard_ones() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], domain="somewhere.else")
    graph = helper.make_graph([node], "g", [], [])
    assert "y" not in derived_values(graph, ["x", "y"])


def test_what_is_observed_is_what_onnx_runtime_computes() -> None:
    model = _many()
    names = AllValues(model).names
    assert names == ("x", "a", "turned", "rectified", "again", "reshaped", "thrice", "wider", "input_again", "y")
    samples = [np.random.default_rng(n).standard_normal(SHAPE).astype(np.float32) for n in range(3)]
    session = FloatSession(model, names)
    fetched = [session.run({"x": sample}) for sample in samples]
    stats = calibrate(model, {"x": samples}, {}, method="percentile")
    assert tuple(stats.ranges) == names
    for name in names:
        numbers = np.concatenate([values[name].ravel() for values in fetched])
        assert stats.histograms[name].extremes == Extremes(numbers.min(), numbers.max(), numbers.size), name
        expected, _ = np.histogram(numbers[numbers != 0.0].astype(np.float64), stats.histograms[name].edges)
        assert np.array_equal(stats.histograms[name].counts, expected), name
