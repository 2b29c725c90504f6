"""NonMaxSuppression: an ONNX network that ends in it, imported and in C, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnkit.cpu_segments import emit_segment, run_segment
from nnkit.errors import ModelError
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import import_onnx

BOXES, CLASSES = 70, 3


def saved(folder: Path, centred: bool, limits: tuple[Any, ...]) -> Path:
    """A network of NonMaxSuppression behind a Sigmoid, in ONNX's own operators."""
    types = (np.int64, np.float32, np.float32)
    names = ["most", "iou", "score"][: len(limits)]
    graph = helper.make_graph(
        [
            helper.make_node("Sigmoid", ["logits"], ["scores"]),
            helper.make_node(
                "NonMaxSuppression", ["boxes", "scores", *names], ["selected"], center_point_box=int(centred)
            ),
        ],
        "g",
        [
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, (1, BOXES, 4)),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, (1, CLASSES, BOXES)),
        ],
        [helper.make_tensor_value_info("selected", TensorProto.INT64, (None, 3))],
        [
            numpy_helper.from_array(np.array([value], kind), name)
            for name, value, kind in zip(names, limits, types, strict=False)
        ],
    )
    path = folder / "nms.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def drawn(seed: int) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(seed)
    boxes = random.uniform(0, 1, (1, BOXES, 4)).astype(np.float32)  # corners in any order
    logits = np.round(random.normal(size=(1, CLASSES, BOXES)) * 4) / 4  # many are equal
    return {"boxes": boxes, "logits": logits.astype(np.float32)}


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("limits", [(5,), (200, 0.3), (20, 0.5, 0.6), (9, 0.0, 0.5), (4, 1.0, 2.0)])
def test_a_network_that_ends_in_it(tmp_path: Path, centred: bool, limits: tuple[Any, ...]) -> None:
    path = saved(tmp_path, centred, limits)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    imported = import_onnx(path)
    assert any("fixed number of rows" in note for note in imported.notes)
    emit_segment(imported.model, "nms", tmp_path / "c")
    for seed in range(3):
        given = drawn(seed)
        (expected,) = session.run(None, given)
        (rows,) = FloatSession(imported.model).run(given).values()
        assert rows.shape == (CLASSES * min(limits[0], BOXES), 3)
        np.testing.assert_array_equal(rows[: len(expected)], expected)
        assert np.all(rows[len(expected) :] == -1)
        found = run_segment(tmp_path / "c", "nms", given, sanitize=True)["selected"]
        np.testing.assert_array_equal(found, rows)


def test_limits_that_allow_no_box_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="max_output_boxes_per_class above 0"):
        import_onnx(saved(tmp_path, False, (0,)))
