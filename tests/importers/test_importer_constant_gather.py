"""What a Gather or a GatherND with constant indices becomes at import, held to ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from nnkit.importers import import_onnx

ROWS = np.array([[2], [0], [3], [3]])
EVEN = np.array([[1], [3], [5]])
PLACES = np.array([[[0, 1], [0, -1]], [[0, 3], [0, 0]]])


@pytest.mark.parametrize(
    ("op", "indices", "shape", "attributes", "made"),
    [
        ("Gather", ROWS[:, 0], (1, 4, 8), {"axis": 1}, ["Gather"]),
        ("Gather", EVEN[:, 0], (1, 8, 4), {"axis": 1}, ["Slice"]),
        ("Gather", EVEN, (1, 8, 4), {"axis": 1}, ["Slice", "Reshape"]),
        ("GatherND", ROWS, (1, 8, 4), {}, ["Gather"]),
        ("GatherND", EVEN, (1, 2, 6), {}, ["Slice"]),
        ("GatherND", PLACES, (1, 4, 8), {}, ["Reshape", "Gather"]),
        ("GatherND", EVEN[None], (1, 8, 1), {"batch_dims": 1}, ["GatherND"]),
    ],
)
def test_constant_indices(
    make_model: Any, save: Any, op: str, indices: Any, shape: tuple[int, ...], attributes: dict[str, int], made: Any
) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=range(len(shape))[::-1]),
        helper.make_node(op, ["t", "i"], ["g"], "g", **attributes),
        helper.make_node("Relu", ["g"], ["y"]),
    ]
    path = save(make_model(nodes, {"i": indices.astype(np.int64)}, inputs={"x": shape}))
    model = import_onnx(path).model
    kept = [node.op_type for node in model.proto().graph.node if node.op_type not in ("Relu", "Transpose")]
    assert kept == made
    x = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    before, after = (
        onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for file in (str(path), model.onnx_bytes)
    )
    np.testing.assert_array_equal(before, after)
