"""Functions by table: every input against Python's math, the error that is stated, and ONNX Runtime on the model."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from nnkit.calibrate import calibrate
from nnkit.program import Fixed, Lookup, Program
from nnkit.quantize import FixedPointScheme, quantize
from nnkit.quantize.affine import AffineScheme, outputs_of, quantize_affine
from nnkit.quantize.affine.float_run import all_values
from nnkit.quantize.affine.qdq_export import qdq_model
from nnkit.quantize.functions import Function
from nnkit.quantize.lowered import LoweredLayers
from nnkit.quantize.lowering import lower
from tests.quantize.conftest import float_values, make_model, stats_of

FUNCTIONS: dict[str, tuple[dict[str, Any], Callable[[float], float]]] = {
    "Sigmoid": ({}, lambda x: 1 / (1 + math.exp(-x))),
    "Tanh": ({}, math.tanh),
    "HardSigmoid": ({"alpha": 1 / 6}, lambda x: min(max(x / 6 + 0.5, 0), 1)),
    "HardSwish": ({}, lambda x: x * min(max(x / 6 + 0.5, 0), 1)),
}
FEEDS = {"x": np.linspace(-7.9, 7.9, 480, dtype=np.float32).reshape(1, 4, 10, 12)}


def _program(op: str, bits: int) -> Program:
    node = helper.make_node(op, ["x"], ["y"], name="op", **FUNCTIONS[op][0])
    model = make_model([node], {}, {"x": (1, 4, 10, 12)}, ["y"])
    return quantize(lower(model), stats_of(float_values(model, FEEDS)), FixedPointScheme(bits=bits, headroom=1.0))


LARGEST_CURVATURE = {"Sigmoid": 0.09623, "Tanh": 0.7699, "HardSigmoid": 0.0, "HardSwish": 1 / 3}


@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("bits", [8, 16])
def test_every_input_is_as_near_as_stated(op: str, bits: int) -> None:
    """8 bits: rounded once. 16 bits: an entry's rounding, the step's, and the chord's curvature * step^2 / 8.

    A kink of the hard functions lies within a step of 64 inputs: there the chord is off by up to 16 slopes.
    """
    program = _program(op, bits)
    (lookup,) = program.ops
    assert isinstance(lookup, Lookup)
    source, output = program.tensors["x"], program.tensors["y"]
    stored = np.arange(source.low, source.high + 1)
    exact = [FUNCTIONS[op][1](int(q) * 2.0**-source.fixed.frac) * 2.0**output.fixed.frac for q in stored]
    error = np.abs(lookup.compute([stored], program.tensors) - np.clip(exact, output.low, output.high))
    step = 2.0 ** (6 - source.fixed.frac)
    chord = LARGEST_CURVATURE[op] * step**2 / 8 * 2.0**output.fixed.frac
    most = 0.5 if bits == 8 else 1.0 + chord
    kinks = np.zeros(len(stored), bool)
    if bits == 16 and op.startswith("Hard"):
        kinks = np.abs(np.abs(stored) - 3 * 2.0**source.fixed.frac) < 64
    assert error[~kinks].max() <= most + 1e-3
    assert error.max() <= most + 16 * 2.0 ** (output.fixed.frac - source.fixed.frac)
    match = re.fullmatch(rf"at most (\S+) units of its output from {op}", lookup.proof_note)
    assert match is not None
    assert float(match[1]) == pytest.approx(error.max(), rel=6e-3)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_affine_integers_agree_with_onnx_runtime_within_one_unit(op: str) -> None:
    node = helper.make_node(op, ["x"], ["y"], name="op", **FUNCTIONS[op][0])
    model = make_model([node], {}, {"x": (1, 4, 10, 12)}, ["y"])
    program = quantize_affine(
        LoweredLayers.of(model), calibrate(model, {"x": [FEEDS["x"]]}, {}, method="mse"), AffineScheme()
    )
    session = onnxruntime.InferenceSession(qdq_model(program).SerializeToString(), providers=["CPUExecutionProvider"])
    unit = program.tensors["y"].scale
    (exported,) = session.run(["y"], FEEDS)
    assert np.abs(outputs_of(program, FEEDS)["y"] - exported).max() < 1.01 * unit
    (by_numpy,) = all_values(lower(model), FEEDS)
    np.testing.assert_allclose(by_numpy["y"], float_values(model, FEEDS)["y"], atol=2e-6)


def test_a_function_that_is_never_negative_has_no_sign_in_eight_bits() -> None:
    """As LiteRT has it: 1 is cut to 255 / 256."""
    assert _program("Sigmoid", 8).tensors["y"].format == Fixed(8, 8, False)


@pytest.mark.parametrize(
    ("low", "high", "image"), [(-8, 8, (-0.375, 8)), (-1, 2, (-1 / 3, 5 / 3)), (-9, -2, (-1 / 3, 0))]
)
def test_range_of_a_function_that_falls_and_rises(low: float, high: float, image: tuple[float, float]) -> None:
    assert Function("HardSwish").image(low, high) == pytest.approx(image)
