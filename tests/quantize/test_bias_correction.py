"""Bias correction of fixed-point programs: means against ONNX Runtime's, and a correction that harms is undone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper

from nnkit.distance import distance
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.program import Conv2d, Fixed, OutputStage, Program
from nnkit.program.inputs import quantized_inputs
from nnkit.quantize import FixedPointScheme, quantize, unproven
from nnkit.quantize.bias_correction import corrected, with_corrected_biases
from nnkit.quantize.lowering import lower
from nnkit.samples import Sample
from nnkit.simulate import simulate

from .conftest import float_values, make_model, mark, stats_of

RNG = np.random.default_rng(11)


def network() -> Model:
    """Three convolutions, one strided and one depthwise, the first two with a Relu and the first with a pool."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], name="first", pads=[1, 1, 1, 1]),
        mark(helper.make_node("Relu", ["a"], ["ar"], name="r1"), "a"),
        mark(helper.make_node("MaxPool", ["ar"], ["ap"], name="p1", kernel_shape=[2, 2], strides=[2, 2]), "a"),
        helper.make_node("Conv", ["ap", "w2", "b2"], ["b"], name="second", group=6, pads=[1, 1, 1, 1]),
        mark(helper.make_node("Relu", ["b"], ["br"], name="r2"), "b"),
        helper.make_node("Conv", ["br", "w3", "b3"], ["y"], name="third", strides=[2, 2]),
    ]
    shapes = {"w1": (6, 1, 3, 3), "w2": (6, 1, 3, 3), "w3": (5, 6, 1, 1)}
    constants = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    constants |= {f"b{i}": RNG.standard_normal(shapes[f"w{i}"][0]).astype(np.float32) for i in (1, 2, 3)}
    return make_model(nodes, constants, {"x": (1, 1, 16, 16)}, ["y"])


def samples(count: int, scale: float = 1.0) -> list[Sample]:
    return [Sample(str(i), {"x": (scale * RNG.random((1, 1, 16, 16))).astype(np.float32)}) for i in range(count)]


@pytest.fixture(scope="module")
def model() -> Model:
    return network()


@pytest.fixture(scope="module")
def given() -> list[Sample]:
    return samples(16)


def program_of(model: Model, given: list[Sample], bits: int = 8, **scheme: Any) -> Program:
    stacked = {name: np.concatenate(v) for name, v in _all_values(model, given).items()}
    return quantize(lower(model), stats_of(stacked), FixedPointScheme(bits=bits, **scheme))


def _all_values(model: Model, given: list[Sample]) -> dict[str, list[NDArray[Any]]]:
    found: dict[str, list[NDArray[Any]]] = {}
    for sample in given:
        for name, value in float_values(model, dict(sample.inputs)).items():
            found.setdefault(name, []).append(value)
    return found


def sum_means(program: Program, given: list[Sample], layer: str) -> NDArray[np.float64]:
    """[O]: the mean of a convolution's sums, before activation and pool, in real units, by simulating a wide copy."""
    ops = list(program.ops)
    at = next(i for i, op in enumerate(ops) if op.name == layer)
    op = ops[at]
    assert isinstance(op, Conv2d)
    frac = op.bias_frac + op.bias_shift
    plain = replace(op, pool=None, stage=OutputStage(0, -(1 << 31), (1 << 31) - 1), output="sums")
    shape = (len(op.bias), *op.window.output_hw(*program.tensors[op.inputs[0]].shape[1:]))
    wide = replace(program.tensors[op.output], name="sums", shape=shape, format=Fixed(32, frac))
    cut = replace(program, ops=(*ops[:at], plain), tensors={**program.tensors, "sums": wide}, outputs=("sums",))
    found = [simulate(cut, quantized_inputs(cut, sample))["sums"].mean(axis=(1, 2)) for sample in given]
    return np.asarray(np.mean(found, axis=0) * 2.0**-frac)


def test_every_mean_is_the_float_network_s(model: Model, given: list[Sample]) -> None:
    program = program_of(model, given)
    after = with_corrected_biases(model, program, given)
    real = _all_values(model, given)
    for layer, value in (("first", "a"), ("second", "b"), ("third", "y")):
        expected = np.concatenate(real[value]).mean(axis=(0, 2, 3), dtype=np.float64)
        op = next(op for op in after.ops if op.name == layer)
        assert isinstance(op, Conv2d)
        assert sum_means(after, given, layer) == pytest.approx(expected, abs=0.51 * 2.0**-op.bias_frac)
        assert np.abs(sum_means(program, given, layer) - expected).max() > 2.0 ** -(op.bias_frac - 1)
    assert not unproven(after)


def one_sided() -> tuple[Model, list[Sample], list[Sample]]:
    """64 weights that all round down by a quarter of a unit, over inputs that are never negative: a shift by hand.

    A weight of 1.5 makes the unit 1/64; the others are 1.25 units.
    """
    weight = np.full((1, 64, 1, 1), 1.25 / 64, np.float32)
    weight[0, 0] = 1.5
    model = make_model(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"], name="only")],
        {"w": weight, "b": np.zeros(1, np.float32)},
        {"x": (1, 64, 4, 4)},
        ["y"],
    )
    found = [Sample("", {"x": RNG.random((1, 64, 4, 4)).astype(np.float32)}) for _ in range(24)]
    return model, found[:16], found[16:]


def decibels(model: Model, program: Program, given: list[Sample]) -> float:
    found = [
        program.tensors["y"].format.dequantize(simulate(program, quantized_inputs(program, s))["y"]) for s in given
    ]
    expected = [float_values(model, dict(sample.inputs))["y"] for sample in given]
    return distance(np.stack(found), np.stack(expected)).sqnr_db


def test_what_helps_is_kept() -> None:
    model, given, unseen = one_sided()
    program = program_of(model, given)
    better = corrected(model, program, given)
    assert better.notes[-1].startswith("bias correction kept:")
    before, after = (next(op for op in each.ops if isinstance(op, Conv2d)) for each in (program, better))
    # 63 weights, a quarter of 1/64 each, times inputs of mean 1/2
    assert (after.bias[0] - before.bias[0]) * 2.0**-before.bias_frac == pytest.approx(63 / 4 / 64 / 2, rel=0.05)
    assert decibels(model, better, unseen) > decibels(model, program, unseen) + 6.0


def test_what_harms_is_undone() -> None:
    """Every fourth sample judges. Where the others are no inputs of its kind, the correction is one for them."""
    model, given, _ = one_sided()
    program = program_of(model, given)
    rare = [given[i] if i % 4 == 0 else Sample("", {"x": -given[i].inputs["x"]}) for i in range(16)]
    same = corrected(model, program, rare)
    assert same.notes[-1].startswith("bias correction undone:")
    assert same.ops == program.ops


@pytest.mark.parametrize(("count", "accumulate", "message"), [(7, "wide", "there are 7"), (8, "running", "rounded")])
def test_what_cannot_be_corrected_is_refused(model: Model, count: int, accumulate: str, message: str) -> None:
    program = program_of(model, samples(4), 16, accumulate=accumulate, unsigned="never")
    with pytest.raises(RecipeError, match=message):
        corrected(model, program, samples(count))
