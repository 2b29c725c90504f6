"""GroupNormalization as exporters write it: imported as its parts, with the file's own results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from nnkit.errors import ModelError
from nnkit.importers import import_onnx

SHAPE = (1, 6, 5, 4)


def _network(opset: int, parameters: int, groups: int = 3) -> onnx.ModelProto:
    random = np.random.default_rng(3)
    arrays = {name: random.uniform(0.5, 2.0, parameters).astype(np.float32) for name in ("scale", "bias")}
    nodes = [
        helper.make_node("Relu", ["x"], ["before"], name="relu"),
        helper.make_node("GroupNormalization", ["before", "scale", "bias"], ["y"], name="norm", num_groups=groups),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, SHAPE)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
        value_info=[helper.make_tensor_value_info("before", onnx.TensorProto.FLOAT, SHAPE)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize("broken", ["no groups", "no inputs", "no output", "groups beside channels", "short scale"])
def test_one_that_is_not_as_defined_is_told(tmp_path: Path, broken: str) -> None:
    proto = _network(21, 6, groups=4 if broken == "groups beside channels" else 3)
    node = proto.graph.node[1]
    if broken == "no groups":
        del node.attribute[:]
    elif broken == "no inputs":
        del node.input[:]
    elif broken == "no output":
        del node.output[:]
    elif broken == "short scale":
        proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones(5, np.float32), "scale"))
    onnx.save(proto, tmp_path / "net.onnx")
    with pytest.raises(ModelError):
        import_onnx(tmp_path / "net.onnx")


@pytest.mark.parametrize(("opset", "parameters"), [(18, 3), (21, 6)])
def test_group_normalisation_is_imported_as_its_parts(tmp_path: Path, opset: int, parameters: int) -> None:
    proto = _network(opset, parameters)
    onnx.save(proto, tmp_path / "net.onnx")
    model = import_onnx(tmp_path / "net.onnx").model
    assert "InstanceNormalization" in {node.op_type for node in model.proto().graph.node}
    given = {"x": np.random.default_rng(4).normal(0, 1, SHAPE).astype(np.float32)}
    (expected,) = ReferenceEvaluator(proto).run(None, given)
    (computed,) = ReferenceEvaluator(model.proto()).run(None, given)
    assert np.abs(computed - expected).max() < 1e-5
