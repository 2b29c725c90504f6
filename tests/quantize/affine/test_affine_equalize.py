"""Cross-layer equalisation: the float network stays, the weights of both sides become equally wide."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnkit.graph import Model
from nnkit.graph.model import InputSpec, OutputSpec
from nnkit.graph.tags import LayerTags
from nnkit.quantize.affine import equalize, float_outputs
from nnkit.quantize.lowered import LoweredLayers
from nnkit.quantize.lowering import lower


def two_convolutions(activation: str, groups: int, *, shared: bool = False) -> Model:
    """conv -> activation -> conv of 4 channels with very different widths of the channels in between."""
    rng = np.random.default_rng(0)
    first = rng.normal(0, 1, (4, 3, 3, 3)) * np.array([0.01, 1, 10, 0.3])[:, None, None, None]
    arrays: dict[str, NDArray[np.generic]] = {
        "w1": first,
        "b1": rng.normal(0, 0.1, 4),
        "w2": rng.normal(0, 1, (4, 4 // groups, 3, 3)),
        "b2": rng.normal(0, 0.1, 4),
        "slope": rng.uniform(0.1, 0.4, (4, 1, 1)),
        "low": np.array(0.0),
        "high": np.array(6.0),
    }
    inputs = {"Relu": ["c"], "PRelu": ["c", "slope"], "Clip": ["c", "low", "high"], "LeakyRelu": ["c"]}[activation]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], pads=[1, 1, 1, 1], name="first"),
        helper.make_node(activation, inputs, ["a"], name="act"),
        helper.make_node("Conv", ["a", "w2", "b2"], ["y"], pads=[1, 1, 1, 1], group=groups, name="second"),
    ]
    nodes[1].metadata_props.add(key="nnkit.fuse_into", value="c")
    outputs = [("y", (1, 4, 6, 6)), *([("a", (1, 4, 6, 6))] if shared else [])]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in arrays.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    specs = tuple(OutputSpec(name, shape) for name, shape in outputs)
    return Model(proto.SerializeToString(), LayerTags(), (InputSpec("x", (1, 3, 6, 6)),), specs, 17)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("activation", ["Relu", "PRelu", "LeakyRelu"])
def test_outputs_stay_and_channels_become_equally_wide(activation: str, groups: int) -> None:
    model = two_convolutions(activation, groups)
    result = equalize(LoweredLayers.of(model))
    assert result.pairs == (("first", "second"),)
    x = {"x": np.random.default_rng(1).normal(0, 1, (3, 3, 6, 6)).astype(np.float32)}
    before, after = float_outputs(model, x)["y"], float_outputs(result.network.model, x)["y"]
    np.testing.assert_allclose(after, before, rtol=2e-4, atol=2e-4 * np.abs(before).max())
    first, second = (layer.weight for layer in lower(result.network.model).ops)
    assert first is not None
    assert second is not None
    per_group = 4 // groups
    for channel in range(4):
        group, index = divmod(channel, per_group)
        reads = second[group * per_group : (group + 1) * per_group, index]
        assert np.abs(first[channel]).max() == pytest.approx(np.abs(reads).max(), rel=1e-2)


def test_an_upper_bound_is_left_alone_with_the_reason() -> None:
    model = two_convolutions("Clip", 1)
    result = equalize(LoweredLayers.of(model))
    assert result.network.model is model
    assert "upper bound" in result.declined[0]


def test_a_value_that_is_an_output_too_is_left_alone() -> None:
    result = equalize(LoweredLayers.of(two_convolutions("Relu", 1, shared=True)))
    assert result.pairs == ()
    assert "others read" in result.declined[0]


def test_channels_below_an_upper_bound_are_scaled_and_outputs_stay() -> None:
    model = two_convolutions("Clip", 1)  # channels of very different width: some reach 6, others stay far below
    x = {"x": np.random.default_rng(1).normal(0, 1, (20, 3, 6, 6)).astype(np.float32)}
    result = equalize(LoweredLayers.of(model), x)
    assert result.pairs == (("first", "second"),)
    assert result.declined == ()
    before, after = float_outputs(model, x)["y"], float_outputs(result.network.model, x)["y"]
    np.testing.assert_allclose(after, before, rtol=2e-4, atol=2e-4 * np.abs(before).max())
    old, new = (layer.weight for layer in (lower(model).ops[0], lower(result.network.model).ops[0]))
    assert old is not None
    assert new is not None
    ratios = np.abs(new).reshape(4, -1).max(axis=1) / np.abs(old).reshape(4, -1).max(axis=1)
    assert ratios[2] == pytest.approx(1.0)  # ten times the others: it reaches the bound
    assert ratios[0] > 2.0  # a hundredth of the others, far below it
    widths = [np.abs(weight).reshape(4, -1).max(axis=1) for weight in (old, new)]
    assert widths[1].max() / widths[1].min() < widths[0].max() / widths[0].min()


def test_bound_still_does_not_bind_with_headroom() -> None:
    model = two_convolutions("Clip", 1)
    x = {"x": np.random.default_rng(1).normal(0, 1, (20, 3, 6, 6)).astype(np.float32)}
    louder = {"x": x["x"] * np.float32(1.2)}  # below the headroom of 1.25, but for biases
    result = equalize(LoweredLayers.of(model), x)
    before, after = float_outputs(model, louder)["y"], float_outputs(result.network.model, louder)["y"]
    np.testing.assert_allclose(after, before, rtol=2e-4, atol=2e-4 * np.abs(before).max())
