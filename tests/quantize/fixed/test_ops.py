"""Every op of fixed point against ONNX Runtime: what is built of one node computes what the node does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from nnkit.distance import distance
from nnkit.program import ConvTranspose2d, Mul, Pad, Program
from nnkit.quantize import FixedPointScheme, quantize
from nnkit.quantize.fixed.catalogue import lowering_of
from nnkit.quantize.float_program import FloatOnnx, FloatOp
from nnkit.quantize.lowering import lower
from nnkit.simulate import simulate
from tests.quantize.conftest import float_values, make_model, stats_of

RNG = np.random.default_rng(9)


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def _ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


CASES: dict[str, tuple[list[str], dict[str, np.ndarray[Any, Any]], dict[str, Any]]] = {
    "Conv": (["x", "w", "b"], {"w": _normal(6, 2, 3, 3), "b": _normal(6)}, {"group": 2, "pads": [1, 0, 2, 1]}),
    "ConvTranspose": (["x", "w"], {"w": _normal(4, 3, 3, 3)}, {"group": 2, "strides": [2, 2], "pads": [1, 1, 0, 0]}),
    "Add": (["x", "x2"], {}, {}),
    "Mul": (["x", "x2"], {}, {}),
    "Relu": (["x"], {}, {}),
    "Clip": (["x", "low", "high"], {"low": np.float32(-0.5), "high": np.float32(1.5)}, {}),
    "LeakyRelu": (["x"], {}, {"alpha": 0.2}),
    "PRelu": (["x", "s"], {"s": np.float32([0.1, -0.3, 0.5, 1.5]).reshape(4, 1, 1)}, {}),
    "Sigmoid": (["x"], {}, {}),
    "Tanh": (["x"], {}, {}),
    "HardSigmoid": (["x"], {}, {"alpha": 0.3, "beta": 0.4}),
    "HardSwish": (["x"], {}, {}),
    "MaxPool": (["x"], {}, {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}),
    "AveragePool": (["x"], {}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "Concat": (["x", "x2"], {}, {"axis": 1}),
    "Resize": (
        ["x", "", "scales"],
        {"scales": np.float32([1, 1, 2, 3])},
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    "Pad": (["x", "pads", "value"], {"pads": _ints(0, 0, 1, 2, 0, 0, 0, 1), "value": np.float32(4.5)}, {}),
    "Transpose": (["x"], {}, {"perm": [0, 2, 1, 3]}),
    "Slice": (
        ["x", "starts", "ends", "axes", "steps"],
        {"starts": _ints(-1, 1), "ends": _ints(0, 5), "axes": _ints(1, 2), "steps": _ints(-2, 3)},
        {},
    ),
    "Reshape": (["x", "to"], {"to": _ints(1, -1)}, {}),
}


def _quantised(op: str, bits: int) -> tuple[Program, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The program of one node, its result in real units, and ONNX Runtime's."""
    names, constants, attributes = CASES[op]
    shapes = {name: (1, 4, 6, 6) for name in names if name and name not in constants}
    model = make_model([helper.make_node(op, names, ["y"], name="op", **attributes)], constants, shapes, ["y"])
    feeds = {name: _normal(*shape) for name, shape in shapes.items()}
    values = float_values(model, feeds)
    program = quantize(lower(model), stats_of(values), FixedPointScheme(bits=bits, headroom=1.0))
    stored = simulate(program, {name: program.tensors[name].fixed.quantize(feed[0]) for name, feed in feeds.items()})
    return program, program.tensors["y"].fixed.dequantize(stored["y"]), values["y"][0]


@pytest.mark.parametrize("op", CASES)
@pytest.mark.parametrize(("bits", "sqnr_db"), [(16, 60.0), (8, 25.0)])
def test_close_to_onnx_runtime(op: str, bits: int, sqnr_db: float) -> None:
    program, computed, expected = _quantised(op, bits)
    assert distance(computed, expected).sqnr_db > sqnr_db
    assert all(op.proof in ("proven", "not_applicable") for op in program.ops)


@pytest.mark.parametrize("op", ["MaxPool", "Concat", "Resize", "Pad", "Reshape", "Transpose", "Slice"])
def test_what_moves_numbers_keeps_their_format(op: str) -> None:
    program, _, _ = _quantised(op, 16)
    assert program.tensors["x"].format == program.tensors["y"].format


def test_padding_holds_its_value() -> None:
    program, computed, _ = _quantised("Pad", 16)
    (pad,) = program.ops
    assert isinstance(pad, Pad)
    assert program.tensors["y"].fixed.dequantize(np.array(pad.value)) == 4.5
    assert computed[0, 0, 0] == 4.5


@pytest.mark.parametrize("bits", [8, 16])
def test_signs_of_all_numbers(bits: int) -> None:
    model = make_model([helper.make_node("Sign", ["x"], ["y"])], {}, {"x": (1, 4, 6, 6)}, ["y"])
    values = float_values(model, {"x": _normal(1, 4, 6, 6)})
    program = quantize(lower(model), stats_of(values), FixedPointScheme(bits=bits))
    stored = np.linspace(program.tensors["x"].low, program.tensors["x"].high, 4 * 6 * 6).round().astype(np.int64)
    stored[:5] = [-2, -1, 0, 1, 2]
    signs = simulate(program, {"x": stored.reshape(4, 6, 6)})["y"]
    np.testing.assert_array_equal(program.tensors["y"].fixed.dequantize(signs).reshape(-1), np.sign(stored))


def test_products_of_sixteen_bits_are_summed_in_what_holds_them() -> None:
    program, _, _ = _quantised("Mul", 16)
    (mul,) = program.ops
    assert isinstance(mul, Mul)
    a, b, y = (program.tensors[name] for name in ("x", "x2", "y"))
    reach = max(abs(x * z) for x in (a.low, a.high) for z in (b.low, b.high))
    rounding = 1 << (a.fixed.frac + b.fixed.frac - y.fixed.frac - 1)
    assert mul.accumulator == ("int32" if reach + rounding < 2**31 else "int64")


def test_bound_of_a_transposed_convolution_holds_on_its_worst_inputs() -> None:
    """Inputs at the ends of their range with the signs of one output's weights: no accumulator leaves 32 bits."""
    program, _, _ = _quantised("ConvTranspose", 16)
    (op,) = program.ops
    assert isinstance(op, ConvTranspose2d)
    x = program.tensors["x"]
    for channel in range(3):
        positive = op.weight[:2, channel].astype(np.int64).clip(min=0).sum() * x.high
        negative = op.weight[:2, channel].astype(np.int64).clip(max=0).sum() * x.low
        assert positive + negative + int(op.bias[channel]) < 2**31


def test_every_float_op_has_a_lowering() -> None:
    classes = [FloatOp]
    while any(each.__subclasses__() for each in classes):
        classes = [leaf for each in classes for leaf in (each.__subclasses__() or [each])]
    assert len(classes) == 20
    for each in set(classes) - {FloatOnnx}:  # stays in float, refused for fixed point
        lowering_of(object.__new__(each))
