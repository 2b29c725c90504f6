"""The layers that an input meets first, behind what keeps its numbers."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from nnkit.api.drafting import write_draft
from nnkit.graph.first_layers import first_layers, readers_by_value


def _network(kind: int, first: str) -> onnx.ModelProto:
    """A picture with its channels last, turned, cast and then divided (or whatever `first` is)."""
    graph = helper.make_graph(
        [
            helper.make_node("Transpose", ["x"], ["turned"], perm=[0, 3, 1, 2]),
            helper.make_node("Cast", ["turned"], ["floats"], to=TensorProto.FLOAT),
            helper.make_node(first, ["floats", "c"], ["scaled"]),
            helper.make_node("Relu", ["scaled"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", kind, (1, 16, 16, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, 16, 16))],
        [helper.make_tensor("c", TensorProto.FLOAT, (), [255.0])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_keeps_the_numbers_is_passed_over() -> None:
    graph = _network(TensorProto.UINT8, "Div").graph
    assert [node.op_type for node in first_layers(readers_by_value(graph), "x")] == ["Div"]


@pytest.mark.parametrize(
    ("kind", "first", "raw"),
    [
        (TensorProto.UINT8, "Max", True),  # bytes can hold nothing but pixels as they are
        (TensorProto.FLOAT, "Div", True),
        (TensorProto.FLOAT, "Max", False),
    ],
)
def test_init_guesses_no_normalisation_where_the_network_has_its_own(
    kind: int, first: str, raw: bool, tmp_path: Path
) -> None:
    onnx.save(_network(kind, first), tmp_path / "net.onnx")
    write_draft(tmp_path / "net.onnx", tmp_path / "r.yaml", targets=["onnx_qdq"], images=None, shapes=())
    text = (tmp_path / "r.yaml").read_text()
    assert ("the network's first layer normalises them" in text) is raw
    assert ("mean: [0.485" in text) is not raw
