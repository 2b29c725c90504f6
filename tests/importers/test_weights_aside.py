"""Large weights that the tools do not see come back as they were, or as folding made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from nnkit.graph.weights_aside import (
    bytes_with_weights,
    put_weights,
    read_weights,
    take_weights,
    weight_arrays,
    with_weights_as_inputs,
    write_weights,
)
from nnkit.importers import ImportOptions, import_onnx

_RANDOM = np.random.default_rng(5)
_CONSTANTS = {
    "first": _RANDOM.standard_normal((40, 4, 3, 3)).astype(np.float32),  # 5,760 bytes
    "factor": _RANDOM.standard_normal((40, 4, 3, 3)).astype(np.float32),
    "bias": _RANDOM.standard_normal(40).astype(np.float32),  # too small to be set aside
}


@pytest.fixture
def folding(make_model: Any) -> onnx.ModelProto:
    """The convolution's weights are a product of two constants, which the import folds."""
    model: onnx.ModelProto = make_model(
        [
            helper.make_node("Mul", ["first", "factor"], ["weight"], name="fold"),
            helper.make_node("Conv", ["x", "weight", "bias"], ["y"], name="conv", pads=[1, 1, 1, 1]),
        ],
        _CONSTANTS,
    )
    return model


def _arrays(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def _session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()  # optimised, constant weights are summed in another order
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options)


def test_weights_come_back_through_a_file(folding: onnx.ModelProto, tmp_path: Path) -> None:
    taken = take_weights(folding.graph)
    assert set(taken) == {"first", "factor"}
    assert len(folding.SerializeToString()) < 4096
    sizes = write_weights(tmp_path / "weights", taken)
    put_weights(folding.graph, read_weights(tmp_path / "weights", sizes))
    found = _arrays(folding.graph)
    assert all(np.array_equal(found[name], array) for name, array in _CONSTANTS.items())


def test_bytes_with_weights_are_those_of_the_whole_model(folding: onnx.ModelProto) -> None:
    folding.graph.initializer[0].doc_string = "behind the data, by the number of its field"
    folding.metadata_props.add(key="behind", value="the graph")
    folding.training_info.add()
    whole = folding.SerializeToString(deterministic=True)
    taken = take_weights(folding.graph)
    assert bytes_with_weights(folding, taken) == whole
    assert not folding.graph.initializer[0].raw_data


def test_a_file_that_was_cut_is_refused(folding: onnx.ModelProto, tmp_path: Path) -> None:
    sizes = write_weights(tmp_path / "weights", take_weights(folding.graph))
    (tmp_path / "weights").write_bytes((tmp_path / "weights").read_bytes()[:-1])
    with pytest.raises(ValueError, match="bytes, not"):
        read_weights(tmp_path / "weights", sizes)


def test_weights_as_inputs_pass_the_checker_and_give_the_same_result(folding: onnx.ModelProto) -> None:
    whole = folding.SerializeToString()
    x = _RANDOM.standard_normal([d.dim_value for d in folding.graph.input[0].type.tensor_type.shape.dim])
    feeds = {"x": x.astype(np.float32)}
    (expected,) = _session(whole).run(None, feeds)
    taken = take_weights(folding.graph)
    light = onnx.shape_inference.infer_shapes(with_weights_as_inputs(folding, taken))
    onnx.checker.check_model(light)
    feeds |= weight_arrays(folding.graph, taken)
    (found,) = _session(light.SerializeToString()).run(None, feeds)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("simplify", [True, False])
def test_folded_and_unfolded_weights_reach_the_model(folding: onnx.ModelProto, save: Any, simplify: bool) -> None:
    model = import_onnx(save(folding), ImportOptions(simplify=simplify)).model
    graph = model.proto().graph
    found = list(_arrays(graph).values())
    product = _CONSTANTS["first"] * _CONSTANTS["factor"]
    expected = [product, _CONSTANTS["bias"]] if simplify else list(_CONSTANTS.values())
    assert [node.op_type for node in graph.node] == (["Conv"] if simplify else ["Mul", "Conv"])
    assert all(any(np.array_equal(array, wanted) for array in found) for wanted in expected)
