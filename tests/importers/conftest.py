"""Fixtures of the import tests: small ONNX files made on the spot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

MakeModel = Callable[..., onnx.ModelProto]


@pytest.fixture
def make_model() -> MakeModel:
    """Builds a ModelProto; inputs and outputs are {name: shape} (None: open shape) of float32 unless `types` says."""

    def make(
        nodes: Sequence[onnx.NodeProto],
        initializers: Mapping[str, Any] | None = None,
        *,
        opset: int = 17,
        ir_version: int = 8,
        inputs: Mapping[str, Sequence[int | str] | None] | None = None,
        outputs: Mapping[str, Sequence[int | str] | None] | None = None,
        types: Mapping[str, int] | None = None,
    ) -> onnx.ModelProto:
        types = types or {}

        def infos(values: Mapping[str, Sequence[int | str] | None]) -> list[onnx.ValueInfoProto]:
            return [
                helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), shape)
                for name, shape in values.items()
            ]

        graph = helper.make_graph(
            list(nodes),
            "net",
            infos({"x": [1, 4, 8, 8]} if inputs is None else inputs),
            infos({"y": None} if outputs is None else outputs),
            [numpy_helper.from_array(np.asarray(array), name) for name, array in (initializers or {}).items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)

    return make


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """Writes a ModelProto (or bytes) to a file and gives its path."""

    def write(model: onnx.ModelProto | bytes, name: str = "net.onnx") -> Path:
        path = tmp_path / name
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return path

    return write


@pytest.fixture
def run_onnx() -> Callable[..., dict[str, np.ndarray[Any, Any]]]:
    """Runs ONNX bytes in ONNX Runtime as they are: outputs by name."""

    def run(model: bytes, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))

    return run
