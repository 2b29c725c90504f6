"""The benchmark of overlaps on the layer that docs/memory.md works by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_convolution_and_what_follows_it_grow_into_their_inputs(tmp_path: Path) -> None:
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 4, 4])] for name in ("x", "y")]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    weights = [numpy_helper.from_array(np.ones((1, 1, 3, 3), np.float32), "w")]
    graph = helper.make_graph(nodes, "net", *ends, weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "net.onnx")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.overlaps", "--json", str(tmp_path / "net.onnx")],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (row,) = json.loads(done.stdout)
    # 16 bytes each, two at once. The convolution's output starts 5 bytes (a row and a pixel) below its input, and the
    # Sigmoid's a byte below that.
    assert (row["apart"], row["in place"], row["diagonal"], row["bound"]) == (32, 32, 22, 22)
