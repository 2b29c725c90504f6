"""The affine quantiser: formats, multipliers, ranges, and the integer program against ONNX Runtime's QDQ."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate import calibrate
from nnkit.calibrate.qdq import read_qdq_ranges
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.graph.model import InputSpec, OutputSpec
from nnkit.graph.tags import LayerTags
from nnkit.program.affine import AffineConv, AffineProgram, AffineTensor, Requantize
from nnkit.program.formats import Affine
from nnkit.quantize.affine import AffineScheme, float_outputs, outputs_of, quantize_affine
from nnkit.quantize.affine.multipliers import multiplier_and_shift
from nnkit.quantize.affine.qdq_export import qdq_model
from nnkit.quantize.affine.quantize import Corrections, keep_better
from nnkit.quantize.affine.ranges import affine_format, weight_format
from nnkit.quantize.judge import outputs_sqnr_db
from nnkit.quantize.lowered import LoweredLayers
from nnkit.simulate import simulate_many

CHANNELS, SIZE = 4, 8


def network(seed: int, kinds: list[str]) -> Model:
    """A chain of layers on [1, 4, 8, 8] with seeded weights."""
    rng = np.random.default_rng(seed)
    nodes, constants = [], []

    def constant(name: str, value: NDArray[np.generic]) -> str:
        constants.append(numpy_helper.from_array(value, name))
        return name

    value = "x"
    for index, kind in enumerate(kinds):
        out = f"v{index}"
        if kind in ("conv", "depthwise", "transpose", "prelu", "relu6"):
            groups = CHANNELS if kind == "depthwise" else 1
            w = rng.normal(0, 0.4, (CHANNELS, CHANNELS // groups, 3, 3)).astype(np.float32)
            inputs = [
                value,
                constant(f"w{index}", w),
                constant(f"b{index}", rng.normal(0, 0.3, 4).astype(np.float32)),
            ]
            op = "ConvTranspose" if kind == "transpose" else "Conv"
            nodes.append(helper.make_node(op, inputs, [f"c{index}"], pads=[1, 1, 1, 1], group=groups))
            if kind == "prelu":
                slope = constant(f"s{index}", rng.uniform(0.05, 0.5, (CHANNELS, 1, 1)).astype(np.float32))
                nodes.append(helper.make_node("PRelu", [f"c{index}", slope], [out]))
            elif kind == "relu6":
                bounds = [constant(f"l{index}", np.float32(0)), constant(f"h{index}", np.float32(1.5))]
                nodes.append(helper.make_node("Clip", [f"c{index}", *bounds], [out]))
            else:
                nodes.append(helper.make_node("Relu", [f"c{index}"], [out]))
        elif kind == "add":
            nodes.append(helper.make_node("Add", [value, "x"], [out]))
        elif kind == "max_pool":
            nodes.append(helper.make_node("MaxPool", [value], [out], kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        else:
            nodes.append(helper.make_node("AveragePool", [value], [out], kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        value = out
    shape = [1, CHANNELS, SIZE, SIZE]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)],
        constants,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    return Model(
        proto.SerializeToString(),
        LayerTags(),
        (InputSpec("x", tuple(shape)),),
        (OutputSpec(value, tuple(shape)),),
        17,
    )


def images(seed: int, count: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 1, (count, CHANNELS, SIZE, SIZE)).astype(np.float32)


def run_qdq(proto: onnx.ModelProto, inputs: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def program_for(model: Model, scheme: AffineScheme, count: int = 8) -> AffineProgram:
    stats = calibrate(model, {"x": list(images(1, count))}, {}, method="mse")
    return quantize_affine(LoweredLayers.of(model), stats, scheme, Corrections(samples={"x": images(1, count)}))


KINDS = ("conv", "depthwise", "transpose", "prelu", "relu6", "add", "max_pool", "average_pool")
SCHEMES = (
    AffineScheme(),
    AffineScheme(per_channel=False),
    AffineScheme(symmetric_weights=False),
    AffineScheme(symmetric_activations=True, activation_method="max", weight_method="max"),
    AffineScheme(activation_method="kl", weight_method="percentile"),
)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), st.sampled_from(SCHEMES))
def test_every_op_agrees_with_onnx_runtime_within_one_unit(seed: int, kinds: list[str], scheme: AffineScheme) -> None:
    program = program_for(network(seed, kinds), scheme)
    names = list(program.tensors)
    everything = AffineProgram(program.name, program.tensors, program.ops, program.inputs, tuple(names[1:]))
    x = images(2, 4)
    found = run_qdq(qdq_model(everything), {"x": x})
    stored = {name: program.tensors[name].format.quantize(found[name]) for name in names[1:]}
    stored["x"] = program.tensors["x"].format.quantize(x)
    for op in program.ops:  # each op gets ONNX Runtime's own inputs: differences cannot add up
        ours = op.compute_many([stored[name] for name in op.inputs], program.tensors).astype(np.int64)
        assert np.abs(ours - stored[op.output]).max() <= 1
        if isinstance(op, AffineConv):  # pools and sums of equal scales have true ties, which the two round apart
            assert (ours != stored[op.output]).mean() < 0.05


@pytest.mark.parametrize("scheme", SCHEMES)
def test_program_is_close_to_the_float_network(scheme: AffineScheme) -> None:
    model = network(3, ["conv", "depthwise", "add", "conv", "average_pool"])
    x = {"x": images(5, 16)}
    assert outputs_sqnr_db(outputs_of(program_for(model, scheme, 32), x), float_outputs(model, x)) > 25.0


def test_convolution_against_exact_fractions() -> None:
    weight = np.array([[[[3]], [[-2]]], [[[127]], [[-127]]]], np.int8)
    multiplier, shift = zip(*(multiplier_and_shift(f) for f in (0.3, 0.011)), strict=True)
    tensors = {
        "x": AffineTensor("x", (2, 1, 3), Affine(8, (0.5,), (10,))),
        "y": AffineTensor("y", (2, 1, 3), Affine(8, (0.25,), (7,))),
    }
    from nnkit.program import Window

    op = AffineConv(
        name="c",
        inputs=("x",),
        output="y",
        weight=weight,
        weight_format=Affine(8, (0.1, 0.2), (0, 0), 0, signed=True),
        bias=np.array([5, -900], np.int32),
        window=Window(1, 1),
        groups=1,
        pad_value=10,
        transposed=False,
        requantize=Requantize(np.array(multiplier), np.array(shift), 0, 255),
    )
    x = np.array([[[[0, 10, 255]], [[255, 3, 0]]]])
    got = op.compute_many([x], tensors)
    for o in range(2):
        for p in range(3):
            acc = sum(int(weight[o, i, 0, 0]) * (int(x[0, i, 0, p]) - 10) for i in range(2)) + int(op.bias[o])
            exact = Fraction(acc * multiplier[o], 1 << shift[o]) + Fraction(1, 2)
            assert got[0, o, 0, p] == min(255, max(0, exact.numerator // exact.denominator + 7))


@given(st.floats(1e-12, 1e8), st.sampled_from([20, 31]))
def test_multiplier_has_the_relative_precision_it_promises(factor: float, bits: int) -> None:
    if factor >= 2.0 ** (bits - 1):
        with pytest.raises(ModelError):
            multiplier_and_shift(factor, bits=bits)
        return
    m, s = multiplier_and_shift(factor, bits=bits)
    assert 0 < m < 1 << bits
    assert 1 <= s <= 62
    if s < 62:
        assert abs(Fraction(m, 1 << s) - Fraction(factor)) <= Fraction(factor) / (1 << (bits - 1))


def test_requantisation_rounds_half_up_once() -> None:
    tensor = AffineTensor("y", (4,), Affine(8, (1.0,), (0,), signed=True))
    stage = Requantize(np.array([1 << 30]), np.array([31]), -128, 127)  # a half
    assert stage.stored(np.array([[3, -3, 1, -1]]), tensor).tolist() == [[2, -1, 1, 0]]


def test_format_holds_zero_exactly_and_both_ends() -> None:
    form = affine_format(-0.3, 1.7, symmetric=False)
    assert form.dequantize(np.array([form.zero_point[0]]))[0] == 0.0
    ends = form.dequantize(form.quantize(np.array([-0.3, 1.7])))
    assert np.abs(ends - [-0.3, 1.7]).max() <= form.scale[0] / 2 * 1.01
    assert affine_format(0.5, 2.0, symmetric=False).zero_point == (0,)


@pytest.mark.parametrize("symmetric", [True, False])
def test_mse_weights_are_no_worse_than_the_largest(symmetric: bool) -> None:
    weight = np.random.default_rng(0).standard_t(3, (3, 40, 1, 1))

    def error(method: str) -> float:
        scheme = AffineScheme(symmetric_weights=symmetric, weight_method=method)  # type: ignore[arg-type]
        form = weight_format(weight, 0, 1, scheme)
        return float(np.square(form.dequantize(form.quantize(weight)) - weight).sum())

    assert error("mse") <= error("max")


def test_bias_correction_matches_the_means_of_the_float_layer() -> None:
    model, x = network(11, ["conv"]), {"x": images(1, 32)}
    stats = calibrate(model, {"x": list(x["x"])}, {}, method="mse")
    scheme = AffineScheme(per_channel=False, bias_correction=True)
    without = quantize_affine(LoweredLayers.of(model), stats, scheme)
    with_it = quantize_affine(LoweredLayers.of(model), stats, scheme, Corrections(samples=x))
    reference = float_outputs(model, x)["v0"].mean(axis=(0, 2, 3))
    off = [np.abs(outputs_of(p, x)["v0"].mean(axis=(0, 2, 3)) - reference).sum() for p in (without, with_it)]
    assert off[1] < off[0]


def test_a_correction_that_harms_is_undone_and_said_so() -> None:
    model, x = network(11, ["conv"]), {"x": images(9, 8)}
    good, bad = (program_for(model, AffineScheme(per_channel=p, weight_method="max")) for p in (True, False))
    better, worse = sorted((good, bad), key=lambda p: -outputs_sqnr_db(outputs_of(p, x), float_outputs(model, x)))
    kept = keep_better(better, worse, model, x, "bias correction")
    assert kept.ops is better.ops
    assert "bias correction undone" in kept.notes[-1]
    assert keep_better(worse, better, model, x, "bias correction").ops is better.ops


def test_a_correction_that_is_kept_is_measured_anew_on_all_inputs() -> None:
    """As if none had been held out; unless who compares programs on these inputs wants the others alone."""
    model, x, others = network(11, ["conv"]), images(1, 16), images(2, 16)
    stats = calibrate(model, {"x": list(x)}, {}, method="mse")
    scheme = AffineScheme(per_channel=False, bias_correction=True)

    def biases(*samples: NDArray[np.float32] | None, **more: bool) -> list[int]:
        given = [None if each is None else {"x": each} for each in samples]
        program = quantize_affine(LoweredLayers.of(model), stats, scheme, Corrections(*given, **more))
        assert not any("undone" in note for note in program.notes)
        return [int(b) for op in program.ops if isinstance(op, AffineConv) for b in op.bias]

    measured_once = biases(x)
    measured_on_all = biases(np.concatenate([x, others]))
    assert measured_once != measured_on_all
    assert biases(x, others) == measured_on_all
    assert biases(x, others, measure_anew=False) == measured_once


def test_scales_come_back_from_the_export() -> None:
    program = program_for(network(4, ["conv", "prelu"]), AffineScheme())
    ranges = read_qdq_ranges(qdq_model(program))
    found = ranges["x"]
    form = affine_format(found.low, found.high, symmetric=False)
    assert form.zero_point == program.tensors["x"].format.zero_point
    assert form.scale[0] == pytest.approx(program.tensors["x"].scale, rel=1e-6)
    assert len(ranges) == len(program.tensors)


def test_simulation_does_not_depend_on_the_batch() -> None:
    program = program_for(network(7, ["conv", "transpose", "average_pool"]), AffineScheme())
    q = program.tensors["x"].format.quantize(images(8, 6))
    name = program.outputs[0]
    whole = simulate_many(program, {"x": q})[name]
    parts = [simulate_many(program, {"x": q[i : i + 1]})[name] for i in range(6)]
    assert np.array_equal(whole, np.concatenate(parts))
