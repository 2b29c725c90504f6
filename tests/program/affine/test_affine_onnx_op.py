"""An operator in float between integers, worked by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from nnkit.errors import ModelError
from nnkit.graph.subgraph import run_bytes
from nnkit.program.affine import AffineOnnx, AffineTensor
from nnkit.program.affine.onnx_op import run_onnx
from nnkit.program.formats import Affine


def test_real_values_go_in_by_their_order_and_the_nearest_stored_ones_come_out() -> None:
    """x = (q - 2) / 2 and y = q / 4 of two images; x - y is stored in steps of 1 around 10, ties to even."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in "xyz"]
    graph = helper.make_graph([helper.make_node("Sub", ["x", "y"], ["z"])], "operator", infos[:2], infos[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    tensors = {
        "x": AffineTensor("x", (3,), Affine(8, (0.5,), (2,))),
        "y": AffineTensor("y", (3,), Affine(8, (0.25,), (0,))),
        "z": AffineTensor("z", (3,), Affine(8, (1.0,), (10,))),
    }
    op = AffineOnnx(
        name="sub",
        inputs=("x", "y"),
        output="z",
        tags=(),
        origins=(),
        operator="Sub",
        model=model.SerializeToString(),
    )
    x, y = np.array([[2, 4, 9], [0, 255, 2]], np.uint8), np.array([[0, 1, 8], [255, 0, 1]], np.uint8)
    # 0 - 0, 1 - 0.25, 3.5 - 2; -1 - 63.75, 126.5 - 0, 0 - 0.25
    stored = op.compute_many([x, y], tensors)
    assert stored.tolist() == [[10, 11, 12], [0, 136, 10]]


def test_an_operator_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it stands between integers or in a float program."""
    x = np.ones((1, 3), np.float32)
    (tmp_path / "mine").write_bytes(x.tobytes())
    monkeypatch.chdir(tmp_path)
    constant = TensorProto(name="c", dims=[1, 3], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    constant.external_data.add(key="location", value="mine")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "c"], ["y"])], "op", infos[:1], infos[1:], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    for compute in (lambda: run_onnx(model, [x]), lambda: run_bytes(model, {"x": x}, {"y": (1, 3)})):
        with pytest.raises(ModelError, match="'c' keeps its numbers in another file"):
            compute()
