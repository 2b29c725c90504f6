"""What a network makes of an error at its input, by networks whose answer is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.zoo.disturbed import NOISE_DB, disturbed_db


@pytest.mark.parametrize(("offset", "expected"), [(0.0, NOISE_DB), (-0.9, NOISE_DB - 20.0)])
def test_a_difference_of_large_numbers_keeps_their_error(tmp_path: Path, offset: float, expected: float) -> None:
    """Inputs of 1: as they are the noise is 40 dB below; with 0.9 taken off, a tenth is left of the signal."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "offset"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1000))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 1000))],
        [numpy_helper.from_array(np.float32(offset), "offset")],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    inputs = [np.ones((1, 1000), np.float32) for _ in range(4)]
    assert disturbed_db(path, inputs) == pytest.approx(expected, abs=0.3)
