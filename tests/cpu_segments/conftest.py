"""A check that emits, compiles and runs a small network as C under sanitizers and compares it with a float run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from segment_networks import Arrays, network

from nnkit.cpu_segments import emit_segment, run_segment
from nnkit.graph.onnx_runtime import FloatSession


@pytest.fixture
def agrees(tmp_path: Path) -> Callable[..., None]:
    """agrees(nodes, inputs, constants, rtol=, atol=): the C code gives what the float session gives."""

    def check(
        nodes: Sequence[onnx.NodeProto],
        inputs: Arrays,
        constants: Arrays | None = None,
        *,
        outputs: Sequence[str] | None = None,
        rtol: float = 2e-6,
        atol: float = 2e-6,
    ) -> None:
        model = network(nodes, inputs, constants or {}, outputs)
        expected = FloatSession(model).run(inputs)
        emit_segment(model, "part", tmp_path)
        found = run_segment(tmp_path, "part", inputs, sanitize=True)
        assert list(found) == list(expected)
        for name, array in expected.items():
            assert found[name].shape == array.shape
            np.testing.assert_allclose(found[name], array, rtol=rtol, atol=atol, err_msg=name)

    return check
