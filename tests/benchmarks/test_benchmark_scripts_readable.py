"""Networks written anew for the vendor's converter: what it stumbles over is gone, the values are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.scripts_readable import readable_by_the_scripts
from benchmarks.zoo.exported import Exported


def _exported(folder: Path, gelu: str = "none") -> Exported:
    """Equal biases stored once, Gelu, and a reduction whose axes are an input, in operator set 20."""
    random = np.random.default_rng(0)
    weights = {name: random.normal(0, 0.5, (4, 4)).astype(np.float32) for name in ("w1", "w2")}
    constants = {**weights, "bias": random.normal(0, 1, 4).astype(np.float32), "axes": np.array([1], np.int64)}
    nodes = [
        helper.make_node("Identity", ["bias"], ["other_bias"]),
        helper.make_node("Gemm", ["x", "w1", "bias"], ["a"]),
        helper.make_node("Gelu", ["a"], ["b"], approximate=gelu),
        helper.make_node("Gemm", ["b", "w2", "other_bias"], ["c"]),
        helper.make_node("ReduceMean", ["c", "axes"], ["y"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), folder / "net.onnx"
    )
    np.save(folder / "x_0.npy", random.normal(0, 2, (2, 4)).astype(np.float32))
    return Exported(folder / "net.onnx", ("x",))


def test_what_it_stumbles_over_is_gone_and_the_values_stay(tmp_path: Path) -> None:
    exported = _exported(tmp_path)
    (tmp_path / "anew").mkdir()
    made = readable_by_the_scripts(exported, tmp_path / "anew")
    assert made is not None
    model = onnx.load(made.path)
    assert [each.version for each in model.opset_import] == [17]
    assert {node.op_type for node in model.graph.node} == {"Gemm", "Div", "Erf", "Add", "Mul", "ReduceMean"}
    x = np.random.default_rng(1).normal(0, 2, (2, 4)).astype(np.float32)
    (before,), (after,) = (
        onnxruntime.InferenceSession(str(each.path), providers=["CPUExecutionProvider"]).run(None, {"x": x})
        for each in (exported, made)
    )
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    assert (tmp_path / "anew" / "x_0.npy").is_file()


def test_a_network_that_would_compute_something_else_is_not_taken(tmp_path: Path) -> None:
    exported = _exported(tmp_path, gelu="tanh")  # the nodes are those of the other kind
    (tmp_path / "anew").mkdir()
    assert readable_by_the_scripts(exported, tmp_path / "anew") is None
