"""A check that emits, compiles and runs a small network as C under sanitizers and compares it with a float run.

The truth is ONNX Runtime for ONNX's operators, and numpy, itself held to OpenCV, for those of ai.nnkit. Tolerance:
both sides compute in float32. Sums run in another order, and exp, log, tanh and pow come from another library, a unit
in the last place or two apart: 2e-6 relative and absolute for values around 1 (sums of up to 200 terms). What only
moves or compares values must agree to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from segment_networks import Arrays, network

from nnkit.cpu_segments import emit_segment
from nnkit.cpu_segments.run import CompiledSegment
from nnkit.graph.onnx_runtime import FloatSession

EXTREMES = (np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -2147483648.0, 2147483648.0)


def extremes(inputs: Arrays) -> Iterator[Arrays]:
    """Inputs of one extreme number each, inputs with one number among whole ones, and mixtures."""
    for number in EXTREMES:
        yield {name: np.full_like(array, number) for name, array in inputs.items()}
        yield {name: _one(array, number) for name, array in inputs.items()}
    for seed in range(4):
        draw = np.random.default_rng(seed)
        yield {name: draw.choice(np.float32([*EXTREMES, 0, 1]), array.shape) for name, array in inputs.items()}


def _one(array: np.ndarray, number: float) -> np.ndarray:
    changed = np.array(array)
    changed.reshape(-1)[array.size // 2] = number
    return changed


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
        program = CompiledSegment(tmp_path, "part", sanitize=True)
        try:
            outputs_of_c = program.run(inputs)
            for extreme in extremes(inputs):
                program.run(extreme)  # any result, but no access out of bounds and nothing undefined
        finally:
            program.close()
        assert list(outputs_of_c) == list(expected)
        for name, array in expected.items():
            assert outputs_of_c[name].shape == array.shape
            np.testing.assert_allclose(outputs_of_c[name], array, rtol=rtol, atol=atol, err_msg=name)

    return check
