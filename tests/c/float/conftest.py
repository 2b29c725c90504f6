"""A check that emits, compiles and runs a small network as C under sanitizers and compares it with a float run.

The truth is ONNX Runtime for ONNX's operators, and numpy, itself held to OpenCV, for those of ai.nnkit. Tolerance:
both sides compute in float32. Sums run in another order, and exp, log, tanh and pow come from another library, a unit
in the last place or two apart: 2e-6 relative and absolute for values around 1 (sums of up to 200 terms). What only
moves or compares values must agree to the bit.
"""

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
        outputs_of_c = run_segment(tmp_path, "part", inputs, sanitize=True)
        assert list(outputs_of_c) == list(expected)
        for name, array in expected.items():
            assert outputs_of_c[name].shape == array.shape
            np.testing.assert_allclose(outputs_of_c[name], array, rtol=rtol, atol=atol, err_msg=name)

    return check
