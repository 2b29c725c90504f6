"""The float reference: any value of a network, against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from one_node import model_of
from onnx import TensorProto, helper, numpy_helper
from random_network_inputs import random_inputs

from nnkit.errors import InternalError, ModelError, UsageError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.graph.onnx_runtime import FloatSession

SCALE = np.array([[2.0, -1.0, 0.5]], np.float32)


@pytest.fixture
def model() -> Model:
    """y = relu(x * k) + x, z = relu(x * k)."""
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["m"]),
        helper.make_node("Relu", ["m"], ["z"]),
        helper.make_node("Add", ["z", "x"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in ("x", "y", "z")]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [numpy_helper.from_array(SCALE, "k")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    specs = (OutputSpec("y", (1, 3)), OutputSpec("z", (1, 3)))
    return Model(proto.SerializeToString(), LayerTags(), (InputSpec("x", (1, 3)),), specs, 21)


X = np.array([[1.0, 2.0, -3.0]], np.float32)
VALUES = {
    "x": X,
    "k": SCALE,
    "m": np.array([[2.0, -2.0, -1.5]]),
    "z": np.array([[2.0, 0.0, 0.0]]),
    "y": np.array([[3.0, 2.0, -3.0]]),
}


def _equal(found: dict[str, Any], names: list[str]) -> None:
    assert list(found) == names
    for name in names:
        np.testing.assert_array_equal(found[name], VALUES[name])


def test_outputs_by_default(model: Model) -> None:
    _equal(FloatSession(model).run({"x": X}), ["y", "z"])


def test_a_scalar_is_an_input_as_others() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float x) => (float y) { y = Neg(x) }'
    proto = onnx.parser.parse_model(text)
    model = Model(proto.SerializeToString(), LayerTags(), (InputSpec("x", ()),), (OutputSpec("y", ()),), 17)
    (y,) = FloatSession(model).run({"x": np.float32(3)}).values()
    assert (y.shape, float(y)) == ((), -3.0)


def test_any_value_can_be_fetched(model: Model) -> None:
    session = FloatSession(model, fetch=["m", "y", "x", "k"])
    _equal(session.run({"x": X}), ["m", "y", "x", "k"])
    _equal(session.run({"x": X}, fetch=["z"]), ["z"])
    _equal(session.run({"x": X}, fetch=["k"]), ["k"])
    _equal(session.run({"x": X}), ["m", "y", "x", "k"])
    _equal(FloatSession(model).run({"x": X}, fetch=["m"]), ["m"])


def test_weights_that_are_fed_give_the_same_values() -> None:
    """Of 4 KiB each, so that they are fed; a convolution, a matrix product and a fetch of a weight itself."""
    random = np.random.default_rng(4)
    weights = {"w": random.normal(0, 1, (32, 3, 7, 7)), "m": random.normal(0, 1, (32, 64))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3, 9, 9]), ("y", [1, 64]))]
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    spec = InputSpec("x", (1, 3, 9, 9))
    network = Model(proto.SerializeToString(), LayerTags(), (spec,), (OutputSpec("y", (1, 64)),), 21)
    inputs = random_inputs(network, 2)
    expected = FloatSession(network, ["c", "w", "y"]).run(inputs)
    session = FloatSession(network, ["c", "w", "y"], feed_weights=True)
    for found in (session.run(inputs), session.reader().run(inputs, ["c", "w", "y"])):
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-6 * np.abs(array).max())
    np.testing.assert_array_equal(session.run(inputs, ["f"])["f"], FloatSession(network, ["f"]).run(inputs)["f"])


def test_the_model_does_not_change(model: Model) -> None:
    before = model.digest
    FloatSession(model, fetch=["m"]).run({"x": X})
    assert model.digest == before


def test_other_types_are_converted(model: Model) -> None:
    _equal(FloatSession(model).run({"x": X.astype(np.float64)}), ["y", "z"])


@pytest.mark.parametrize("inputs", [{}, {"x": X, "w": X}, {"x": X[0]}, {"x": np.zeros((2, 3))}])
def test_wrong_inputs_are_usage_errors(model: Model, inputs: Any) -> None:
    with pytest.raises(UsageError):
        FloatSession(model).run(inputs)


def test_an_unknown_value_is_ours(model: Model) -> None:
    with pytest.raises(InternalError, match="no such value"):
        FloatSession(model, fetch=["nothing"])


def test_what_onnx_runtime_refuses_is_a_model_error(model: Model) -> None:
    broken = model.proto()
    broken.graph.node[1].op_type = "NoSuchOperator"
    with pytest.raises(ModelError, match="ONNX Runtime cannot run the network"):
        FloatSession(Model(broken.SerializeToString(), model.tags, model.inputs, model.outputs, 21))


def test_a_table_read_beyond_its_end_is_not_the_fault_of_the_file() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["k", "i"], ["y"]),
    ]
    network = model_of(nodes, {"x": (1, 2)}, {"k": np.ones((5, 3), np.float32)}, ["y"])
    session = FloatSession(network)
    assert session.run({"x": np.float32([[4, 0]])})["y"].shape == (1, 2, 3)
    with pytest.raises(ModelError, match="out of data bounds") as caught:
        session.run({"x": np.float32([[5, 0]])})
    assert "an input of integers of their own" in caught.value.remedy


def test_random_inputs_depend_on_the_seed_alone(model: Model) -> None:
    first, again, other = (random_inputs(model, seed)["x"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (1, 3)
    assert first.dtype == np.float32
    assert np.any(first != other)
    wide = random_inputs(model, 1, low=5.0, high=6.0)["x"]
    assert np.all((wide >= 5) & (wide < 6))


@pytest.mark.parametrize("optimized", [False, True])
def test_readers_side_by_side_have_buffers_of_their_own(model: Model, optimized: bool) -> None:
    session = FloatSession(model, ["x", "k", "m", "z", "y"], optimized=optimized)
    names = ["y", "m", "x", "k", "z"]
    first, second = session.reader(), session.reader()
    found = [first.run({"x": X}, names), second.run({"x": X * 2}, names)]
    for factor, values in enumerate(found, start=1):
        assert list(values) == names
        for name, array in values.items():
            np.testing.assert_array_equal(array, VALUES[name] * (1 if name == "k" else factor))
    kept = found[0]["m"]
    assert first.run({"x": X * 3}, names)["m"] is kept
    np.testing.assert_array_equal(kept, VALUES["m"] * 3)


def test_a_reader_takes_sizes_that_depend_on_the_sample() -> None:
    """NonZero gives as many columns as there are numbers; `wrong` states a size that it does not have."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["where"]),
        helper.make_node("Cast", ["where"], ["y"], to=TensorProto.FLOAT),
    ]
    for stated in ([2, "n"], [2, 5]):
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3]), ("y", stated)))
        graph = helper.make_graph(nodes, "g", [x], [y])
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        specs = (InputSpec("x", (1, 3)),), (OutputSpec("y", (2, 3)),)
        reader = FloatSession(Model(proto.SerializeToString(), LayerTags(), *specs, 21)).reader()
        for sample in ([[1.0, 0.0, 2.0]], [[0.0, 0.0, 4.0]], [[1.0, 2.0, 3.0]]):
            array = np.array(sample, np.float32)
            np.testing.assert_array_equal(reader.run({"x": array}, ["y"])["y"], np.argwhere(array).T)


def test_a_reader_that_fails_says_why_and_goes_on(model: Model) -> None:
    reader = FloatSession(model).reader()
    with pytest.raises(UsageError, match="shape"):
        reader.run({"x": X[:, :2]}, ["y"])
    np.testing.assert_array_equal(reader.run({"x": X}, ["y"])["y"], VALUES["y"])


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_optimised_relus_compute_the_same_in_any_type(kind: int) -> None:
    """Through two Relus, of which one is asked for; in other types than float32 by way of casts."""
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=kind),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Add", ["c", "a"], ["d"]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Cast", ["e"], ["y"], to=TensorProto.FLOAT),
    ]
    if kind == TensorProto.FLOAT:  # without casts
        nodes = nodes[1:-1]
        nodes[0].input[0] = nodes[2].input[1] = "x"
        nodes[-1].output[0] = "y"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    proto = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=10
    )
    model = Model(proto.SerializeToString(), LayerTags(), (InputSpec("x", (1, 4)),), (OutputSpec("y", (1, 4)),), 17)
    sample = np.array([[-1.5, 0.0, 2.0, 0.25]], np.float32)
    found = FloatSession(model, ["b", "y"], optimized=True).run({"x": sample})
    np.testing.assert_array_equal(found["b"], np.maximum(sample, 0))
    np.testing.assert_array_equal(found["y"], np.maximum(sample - np.maximum(sample, 0), 0))
