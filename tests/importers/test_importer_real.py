"""Real networks: the imported model computes what the file's own model computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from random_network_inputs import random_inputs

from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import import_onnx

NETS = [
    "models/gap8_reid/reid.onnx",
    "models/ulfg/version-RFB-320.onnx",
    "models/ulfg/version-RFB-320_simplified.onnx",
    "nets/a_squeezenet11.onnx",
    "nets/b_mbv1_025.onnx",
    "nets/c_resnet8.onnx",
    "nets/c_resnet8_int8qdq_s.onnx",
    "nets/d_dscnn.onnx",
    "quant_bench/digits.onnx",
    "quant_bench/r20.onnx",
    "quant_bench/rfb.onnx",
    "quant_bench/vww.onnx",
]


@pytest.mark.parametrize("net", NETS)
def test_real_network(net: str, shared_dir: Path, run_onnx: Any) -> None:
    path = shared_dir / net
    result = import_onnx(path)
    feeds = random_inputs(result.model, seed=1)
    expected = run_onnx(path.read_bytes(), feeds)
    actual = FloatSession(result.model).run(feeds)
    assert list(actual) == list(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, rtol=1e-4, atol=1e-4, err_msg=name)

    # Every layer of the file that reaches an output at run time is there under its own name.
    before = {node.name or node.output[0]: node.op_type for node in onnx.load(path).graph.node}
    after = {node.name: node.op_type for node in result.model.proto().graph.node}
    assert set(after) <= set(before)
    arithmetic = {"Conv", "Relu", "Gemm", "MaxPool", "Softmax", "BatchNormalization", "Exp"}
    assert {n for n, op in before.items() if op in arithmetic} == {n for n, op in after.items() if op in arithmetic}
