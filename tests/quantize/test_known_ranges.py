"""Fixed scales of sigmoids and the like: LiteRT takes these and no others, and computes the same with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from onnx import helper

from fuzz.tflite_files import TfliteFile
from nnkit.calibrate import calibrate
from nnkit.program import Fixed
from nnkit.program.affine import AffineProgram
from nnkit.quantize import FixedPointScheme, quantize
from nnkit.quantize.affine import AffineScheme, quantize_affine
from nnkit.quantize.affine.scheme import Bits
from nnkit.quantize.lowered import LoweredLayers
from nnkit.quantize.lowering import lower
from nnkit.simulate import simulate
from tests.quantize.conftest import float_values, make_model, stats_of

LITERT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Sigmoid": ("LOGISTIC", "", {}),
    "Tanh": ("TANH", "", {}),
    "Softmax": ("SOFTMAX", "SoftmaxOptions", {"beta": 1.0}),
    "LogSoftmax": ("LOG_SOFTMAX", "LogSoftmaxOptions", {}),
}
SHAPE = (1, 10)
UNMOVED = np.linspace(-9.0, -8.5, 10, dtype=np.float32).reshape(SHAPE)


def _program(op: str, bits: Bits, *, symmetric: bool = False) -> AffineProgram:
    """Calibrated where a sigmoid lies below 0.0003, and in its input on all of -9 to 9."""
    model = make_model([helper.make_node(op, ["x"], ["y"], name="op")], {}, {"x": SHAPE}, ["y"])
    stats = calibrate(model, {"x": [UNMOVED]}, {}, method="max")
    wide = calibrate(model, {"x": [np.linspace(-9, 9, 10, dtype=np.float32).reshape(SHAPE)]}, {}, method="max")
    stats = replace(stats, ranges={**stats.ranges, "x": wide.ranges["x"]})
    scheme = AffineScheme(
        activation_bits=bits, symmetric_activations=symmetric, activation_method="max", headroom=1.0
    )
    return quantize_affine(LoweredLayers.of(model), stats, scheme)


def _interpreter(path: Path, op: str, kind: str, source: tuple[float, int], out: tuple[float, int]) -> Interpreter:
    litert, options, values = LITERT[op]
    net = TfliteFile(kind)
    x = net.tensor(SHAPE, None, None, [source[0]], [source[1]])
    net.inputs.append(x)
    net.write(path, net.op(litert, [x], SHAPE, options, scale=out, **values))
    interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    return interpreter


@pytest.mark.parametrize(
    ("op", "bits"), [*((op, 8) for op in LITERT), ("Sigmoid", 16), ("Tanh", 16), ("Softmax", 16)]
)
def test_litert_has_this_scale_and_no_other_and_computes_the_same(tmp_path: Path, op: str, bits: Bits) -> None:
    program = _program(op, bits, symmetric=bits == 16)
    source, out = (program.tensors[name] for name in ("x", "y"))
    shift = 128 if bits == 8 else 0  # unsigned here, signed there
    kind = "i1" if bits == 8 else "i2"
    ends = (source.scale, source.zero_point - shift), (out.scale, out.zero_point - shift)
    interpreter = _interpreter(tmp_path / "net.tflite", op, kind, *ends)
    stored = np.linspace(source.format.qmin, source.format.qmax, 10).astype(np.int64).reshape(SHAPE)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], (stored - shift).astype(f"<{kind}"))
    interpreter.invoke()
    got = interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).astype(np.int64) + shift
    own = simulate(program, {"x": stored[0].astype(source.format.dtype)})["y"].astype(np.int64)
    assert np.abs(got - own).max() <= (1 if bits == 8 else 8)
    assert np.ptp(own) > 50  # the output moves although calibration never moved it
    if (op, bits) == ("Tanh", 8):  # its specification has no other; this kernel alone does not check
        return
    with pytest.raises((RuntimeError, ValueError)):
        _interpreter(tmp_path / "other.tflite", op, kind, ends[0], (out.scale * 1.5, out.zero_point - shift))


def test_a_concatenation_of_sigmoids_has_their_scale() -> None:
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"], name="a"),
        helper.make_node("Sigmoid", ["x"], ["b"], name="b"),
        helper.make_node("Concat", ["a", "b"], ["y"], name="join", axis=1),
    ]
    model = make_model(nodes, {}, {"x": SHAPE}, ["y"])
    stats = calibrate(model, {"x": [UNMOVED]}, {}, method="max")
    program = quantize_affine(LoweredLayers.of(model), stats, AffineScheme(activation_method="max"))
    assert {program.tensors[name].scale for name in "aby"} == {1 / 256}


def test_a_sigmoid_beside_other_values_keeps_its_scale_in_a_concatenation() -> None:
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"], name="a"),
        helper.make_node("Concat", ["a", "x"], ["y"], name="join", axis=1),
    ]
    model = make_model(nodes, {}, {"x": SHAPE}, ["y"])
    program = quantize_affine(
        LoweredLayers.of(model),
        calibrate(model, {"x": [UNMOVED]}, {}, method="max"),
        AffineScheme(activation_method="max"),
    )
    assert program.tensors["a"].scale == 1 / 256
    assert program.tensors["y"].scale > 8 / 256


@pytest.mark.parametrize(
    ("op", "bits", "form"),
    [
        ("Sigmoid", 8, Fixed(8, 8, False)),
        ("HardSigmoid", 8, Fixed(8, 8, False)),
        ("Softmax", 8, Fixed(8, 8, False)),
        ("Tanh", 8, Fixed(8, 7)),
        ("LogSoftmax", 8, Fixed(8, 3)),  # no zero point: -16 to 0 takes half of the integers
        ("Sigmoid", 16, Fixed(16, 15)),
        ("Softmax", 16, Fixed(16, 15)),
        ("Tanh", 16, Fixed(16, 15)),
    ],
)
def test_fixed_point_has_the_power_of_two_that_is_nearest(op: str, bits: int, form: Fixed) -> None:
    model = make_model([helper.make_node(op, ["x"], ["y"], name="op")], {}, {"x": SHAPE}, ["y"])
    program = quantize(
        lower(model), stats_of(float_values(model, {"x": UNMOVED})), FixedPointScheme(bits=bits, headroom=1.0)
    )
    assert program.tensors["y"].format == form
