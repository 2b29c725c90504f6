"""Rows of the zoo, without torch: a network that a target takes, one that it refuses, one that was not exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.zoo.exported import Exported
from benchmarks.zoo.rows import row


def _exported(folder: Path, op: str) -> Exported:
    """A 1x1 convolution and an op behind it, with inputs."""
    weight = np.random.default_rng(1).normal(0, 0.5, (4, 2, 1, 1)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["input", "w"], ["c"]), helper.make_node(op, ["c"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, (1, 2, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "net.onnx"
    )
    for number in range(3):
        values = np.random.default_rng(number).normal(0, 1, (1, 2, 4, 4)).astype(np.float32)
        np.save(folder / f"{'verify_' if number == 2 else ''}input_{number}.npy", values)
    return Exported(folder / "net.onnx", ("input",))


@pytest.mark.parametrize(("op", "target", "status"), [("Relu", "onnx_qdq", "ok"), ("Sin", "gap8", "refused")])
def test_row_of_a_network(tmp_path: Path, op: str, target: str, status: str) -> None:
    made = row("net", "dynamo", target, _exported(tmp_path, op), tmp_path / "out", compile_tpu=False)
    assert (made["network"], made["exporter"]) == ("net", "dynamo")
    assert (made["target"], made["status"]) == (target, status)
    if status == "ok":
        assert made["mismatches"] == 0
        assert float(str(made["sqnr_db"])) > 25
    else:
        assert "Sin" in str(made["reason"])


def test_network_that_the_exporter_did_not_make(tmp_path: Path) -> None:
    made = row("net", "dynamo", "gap8", "TypeError: no", tmp_path, compile_tpu=False)
    assert (made["status"], made["reason"]) == ("refused", "not exported: TypeError: no")
