"""ONNX files with operators of `ai.nnkit`: taken as they are where they are right, refused by name where not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnkit.errors import ModelError
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import import_onnx

MATRIX = np.array([[1.02, 0.05, 1.5], [-0.03, 0.97, 2.0], [0.0004, -0.0003, 1.0]], np.float32)


def network(path: Path, op_type: str = "WarpPerspective", opset: int = 13, **changed: object) -> Path:
    """image -> (a sum that is constant) -> warp -> Relu."""
    attributes: dict[str, object] = {
        "direction": "inverse",
        "interpolation": "bilinear",
        "border": "constant",
        "border_value": 0.0,
        "out_h": 20,
        "out_w": 24,
    }
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["mean"], axes=[2, 3], keepdims=0),
        helper.make_node("Mul", ["mean", "zeros"], ["nothing"]),
        helper.make_node("Add", ["nothing", "matrix"], ["theta"]),
        helper.make_node(
            op_type, ["image", "theta"], ["warped"], "warp", domain="ai.nnkit", **(attributes | changed)
        ),
        helper.make_node("Relu", ["warped"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 28, 30])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 20, 24])],
        [
            numpy_helper.from_array(np.zeros((1, 9), np.float32), "zeros"),
            numpy_helper.from_array(MATRIX.reshape(1, 9), "matrix"),
        ],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.nnkit", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    return path


def test_a_warp_is_imported_and_run_as_opencv_does_it(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    result = import_onnx(network(tmp_path / "net.onnx"))
    assert [n.domain for n in result.model.proto().graph.node if n.op_type == "WarpPerspective"] == ["ai.nnkit"]
    image = np.random.default_rng(0).uniform(0, 255, (1, 1, 28, 30)).astype(np.float32)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    expected = cv2.warpPerspective(image[0, 0], MATRIX.astype(np.float64), (24, 20), flags=flags)
    found = FloatSession(result.model).run({"image": image})["y"][0, 0]
    # OpenCV rounds coordinates to 1/32 of a pixel: up to 1/64 of the difference of neighbours in x and in y.
    assert np.abs(found - expected).max() <= 2 * 255 / 64
    assert np.abs(found - expected).mean() < 1.0


def test_the_operator_set_is_converted_around_it(tmp_path: Path) -> None:
    result = import_onnx(network(tmp_path / "net.onnx"))
    assert {(entry.domain, entry.version) for entry in result.model.proto().opset_import} == {
        ("", 21),
        ("ai.nnkit", 1),
    }


@pytest.mark.parametrize(
    ("op_type", "changed", "said"),
    [("Warp", {}, "no operator 'Warp'"), ("WarpPerspective", {"interpolation": "cubic"}, "interpolation")],
)
def test_what_is_wrong_with_an_operator_is_said(
    tmp_path: Path, op_type: str, changed: dict[str, object], said: str
) -> None:
    with pytest.raises(ModelError, match=said) as caught:
        import_onnx(network(tmp_path / "net.onnx", op_type, **changed))
    assert "warp" in str(caught.value)


def test_other_domains_are_still_refused(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.node[3].domain = "com.example"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"'com\.example' is not ONNX's own"):
        import_onnx(path)
