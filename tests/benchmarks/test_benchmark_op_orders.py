"""The benchmark of op orders on a file whose branches are listed side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from onnx import TensorProto, helper, save

REPOSITORY = Path(__file__).resolve().parents[2]


def test_branches_listed_side_by_side_gain(tmp_path: Path) -> None:
    shape = helper.make_tensor_value_info
    wide = [shape(name, TensorProto.FLOAT, [1, 40, 2]) for name in ("a", "b")]
    thin = [shape(name, TensorProto.FLOAT, [1, 1, 2]) for name in ("c", "d")]
    nodes = [
        helper.make_node("Concat", ["x"] * 40, ["a"], axis=1),
        helper.make_node("Concat", ["x"] * 40, ["b"], axis=1),
        helper.make_node("ReduceMean", ["a"], ["c"], axes=[1], keepdims=1),
        helper.make_node("ReduceMax", ["b"], ["d"], axes=[1], keepdims=1),
        helper.make_node("Add", ["c", "d"], ["y"]),
    ]
    ends = [shape("x", TensorProto.FLOAT, [1, 1, 2])], [shape("y", TensorProto.FLOAT, [1, 1, 2])]
    graph = helper.make_graph(nodes, "net", *ends, value_info=[*wide, *thin])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "net.onnx")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.op_orders", "--json", str(tmp_path / "net.onnx")],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (row,) = json.loads(done.stdout)
    # Side by side: x, a, b. One after the other: x, one wide value and one thin one.
    assert (row["given peak"], row["found peak"], row["certificate"]) == (2 + 80 + 80, 2 + 80 + 2, "optimal")
