"""Two inputs of different shapes and two outputs, one of which is read on, through a build for every target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.zoo.exported import Exported
from benchmarks.zoo.rows import row

INPUTS = {"left": (1, 2, 8, 8), "right": (1, 3, 4, 4)}


def network(folder: Path) -> Exported:
    """left -> strided convolution, right -> 1x1 convolution; their sum is an output, and so are features of it."""
    random = np.random.default_rng(5)
    weights = {"a": (4, 2, 2, 2), "b": (4, 3, 1, 1), "c": (5, 4, 4, 4)}
    stored = [numpy_helper.from_array(random.normal(0, 0.3, s).astype(np.float32), n) for n, s in weights.items()]
    nodes = [
        helper.make_node("Conv", ["left", "a"], ["halved"], name="halved", strides=[2, 2]),
        helper.make_node("Conv", ["right", "b"], ["turned"], name="turned"),
        helper.make_node("Add", ["halved", "turned"], ["sum"], name="sum"),
        helper.make_node("Relu", ["sum"], ["map"], name="map"),
        helper.make_node("Conv", ["map", "c"], ["features"], name="features"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in INPUTS.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("map", "features")],
        stored,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "net.onnx"
    )
    for name, shape in INPUTS.items():
        for number in range(4):
            values = np.random.default_rng(number % 3).normal(0, 1, shape) * (0.9 if number == 3 else 1.0)
            np.save(folder / f"{'verify_' if number == 3 else ''}{name}_{number}.npy", values.astype(np.float32))
    return Exported(folder / "net.onnx", tuple(INPUTS))


@pytest.mark.parametrize(
    ("target", "least_db"), [("gap8", 60.0), ("onnx_qdq", 30.0), ("ansi_c", 120.0), ("nnie", 30.0), ("tpu", 30.0)]
)
def test_build(tmp_path: Path, target: str, least_db: float) -> None:
    made = row("net", "by hand", target, network(tmp_path), tmp_path / "out", compile_tpu=False)
    assert made["status"] == "ok", made["reason"]
    assert made["mismatches"] == (None if target == "tpu" else 0)
    assert made["sqnr_db"] is None or float(str(made["sqnr_db"])) > least_db
