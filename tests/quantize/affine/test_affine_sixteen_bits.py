"""Affine programs of 16 bits, whole and mixed by tags: against Python integers and ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nnkit.calibrate import calibrate
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.graph.tags import ValueTags
from nnkit.program.affine import AffineAdd, AffineConv, AffineProgram, AffineTensor, rounded_product
from nnkit.program.formats import Affine
from nnkit.quantize.affine import AffineScheme, float_outputs, outputs_of, qdq_model, quantize_affine, read_qdq
from nnkit.quantize.affine.accumulators import conv_accumulator, output_rows
from nnkit.quantize.affine.ranges import activation_format, affine_format, weight_format
from nnkit.quantize.judge import outputs_sqnr_db
from nnkit.quantize.lowered import LoweredLayers

from .test_affine_quantize import KINDS, images, network, program_for, run_qdq

SIXTEEN = AffineScheme(activation_bits=16, weight_bits=16)
SCHEMES = (
    SIXTEEN,
    AffineScheme(activation_bits=16),
    AffineScheme(activation_bits=16, weight_bits=16, symmetric_weights=False, per_channel=False),
    AffineScheme(activation_bits=16, weight_bits=16, symmetric_activations=True, activation_method="max"),
    AffineScheme(weight_bits=16),
)


def tagged(model: Model, *values: str) -> Model:
    """The model with the layers that make these values tagged `_hp`."""
    tags = model.tags
    for value in values:
        tags = tags.with_tags(value, ValueTags(hp=True))
    return replace(model, tags=tags)


@given(
    st.integers(-(1 << 46), 1 << 46),
    st.one_of(st.integers(-(1 << 31) + 1, (1 << 31) - 1), st.integers(-1000, 1000)),
    st.integers(1, 62),
)
@example(1 << 46, (1 << 31) - 1, 1)
@example(-(1 << 46), (1 << 31) - 1, 30)
@example((1 << 31) - 1, -(1 << 30), 31)
@example(-(1 << 31), 1 << 30, 62)
def test_wide_products_are_rounded_once(acc: int, multiplier: int, shift: int) -> None:
    exact = (acc * multiplier + (1 << (shift - 1))) >> shift
    found = int(rounded_product(np.array([acc]), np.array([multiplier]), np.array([shift]))[0])
    if abs(exact) <= 1 << 32:
        assert found == exact
    else:  # both are far beyond any format
        assert abs(found) >= 1 << 31
        assert (found > 0) == (exact > 0)


@settings(max_examples=16)
@given(st.integers(0, 10**6), st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), st.sampled_from(SCHEMES))
def test_every_op_agrees_with_onnx_runtime_within_one_unit(seed: int, kinds: list[str], scheme: AffineScheme) -> None:
    _within_one_unit(program_for(network(seed, kinds), scheme))


@settings(max_examples=16)
@given(st.integers(0, 10**6), st.lists(st.sampled_from(KINDS), min_size=2, max_size=5), st.data())
def test_mixed_widths_agree_with_onnx_runtime(seed: int, kinds: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.sets(st.integers(0, len(kinds) - 1), min_size=1))
    program = program_for(
        tagged(network(seed, kinds), *(f"{kind}{index}" for index in chosen for kind in "cv")), AffineScheme()
    )
    assert {tensor.format.bits for tensor in program.tensors.values()} >= {16}
    _within_one_unit(program)


def _within_one_unit(program: AffineProgram) -> None:
    names = list(program.tensors)
    everything = AffineProgram(program.name, program.tensors, program.ops, program.inputs, tuple(names[1:]))
    x = images(2, 4)
    found = run_qdq(qdq_model(everything), {"x": x})
    stored = {name: program.tensors[name].format.quantize(found[name]) for name in names[1:]}
    stored["x"] = program.tensors["x"].format.quantize(x)
    for op in program.ops:  # each op gets ONNX Runtime's own inputs: differences cannot add up
        ours = op.compute_many([stored[name] for name in op.inputs], program.tensors).astype(np.int64)
        assert np.abs(ours - stored[op.output]).max() <= 1
        if isinstance(op, AffineConv):
            assert (ours != stored[op.output]).mean() < 0.05


@pytest.mark.parametrize("scheme", [SIXTEEN, replace(SIXTEEN, symmetric_activations=True)])
def test_a_convolution_is_the_real_one_rounded(scheme: AffineScheme) -> None:
    program = program_for(network(5, ["conv"]), replace(scheme, bias_correction=False))
    op = next(op for op in program.ops if isinstance(op, AffineConv))
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    stored = x.format.quantize(images(6, 3))
    real = np.pad(x.format.dequantize(stored), ((0, 0), (0, 0), (1, 1), (1, 1)))
    weight = op.weight_format.dequantize(op.weight)
    bias = op.bias * x.scale * np.asarray(op.weight_format.scale)
    value = np.zeros((3, *y.shape))
    for ky in range(3):
        for kx in range(3):
            value += np.einsum("oi,nihw->nohw", weight[:, :, ky, kx], real[:, :, ky : ky + 8, kx : kx + 8])
    value = (value + bias[:, None, None]) / y.scale + y.zero_point
    expected = np.clip(np.floor(value + 0.5), op.requantize.clip_min, op.requantize.clip_max)
    clear = np.abs(value + 0.5 - np.rint(value + 0.5)) > 1e-3  # of 31 bits of a multiplier 15 are left below one unit
    found = op.compute_many([stored], program.tensors)
    assert clear.mean() > 0.95
    assert np.array_equal(found[clear], expected[clear])
    assert np.abs(found - expected).max() <= 1


def test_sixteen_bits_are_far_more_accurate() -> None:
    model, x = network(3, ["conv", "depthwise", "add", "conv", "average_pool"]), {"x": images(5, 16)}
    reference = float_outputs(model, x)
    eight, weights, both = (
        outputs_sqnr_db(outputs_of(program_for(model, scheme, 32), x), reference)
        for scheme in (AffineScheme(), AffineScheme(activation_bits=16), SIXTEEN)
    )
    assert eight + 3.0 < weights < both
    assert both > 60.0


def test_what_has_a_tag_has_16_bits_and_nothing_else() -> None:
    kinds = ["conv", "conv", "max_pool", "conv", "conv"]
    program = program_for(tagged(network(2, kinds), "c3"), AffineScheme())
    bits = {name: tensor.format.bits for name, tensor in program.tensors.items()}
    # The convolution c3 reads the pooled v2, which is stored as v1 is. (No Relu is fused here: v1 is that of c1.)
    assert {name for name, width in bits.items() if width == 16} == {"v1", "v2", "c3"}
    widths = {op.output: op.weight_format.bits for op in program.ops if isinstance(op, AffineConv)}
    assert widths == {"c0": 8, "c1": 8, "c3": 16, "c4": 8}
    assert [op.output for op in program.ops if "hp" in op.tags] == ["c3"]


def test_parts_of_a_wide_concatenation_are_wide() -> None:
    from onnx import TensorProto, helper

    from nnkit.graph.model import InputSpec, OutputSpec

    base = network(4, ["conv"]).proto()
    weight = onnx.numpy_helper.from_array(np.full((4, 8, 1, 1), 0.1, np.float32), "w9")
    nodes = [
        *base.graph.node,
        helper.make_node("Concat", ["v0", "x"], ["joined"], axis=1),
        helper.make_node("Conv", ["joined", "w9"], ["y"]),
    ]
    shape = [1, 4, 8, 8]
    graph = helper.make_graph(
        nodes,
        "net",
        list(base.graph.input),
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [*base.graph.initializer, weight],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    from nnkit.graph.tags import LayerTags

    plain = Model(
        proto.SerializeToString(),
        LayerTags(),
        (InputSpec("x", tuple(shape)),),
        (OutputSpec("y", tuple(shape)),),
        17,
    )
    program = program_for(tagged(plain, "y"), AffineScheme())
    assert {program.tensors[name].format.bits for name in ("x", "v0", "joined", "y")} == {16}
    _within_one_unit(program)
    reference, x = float_outputs(plain, {"x": images(5, 8)}), {"x": images(5, 8)}
    narrow = program_for(plain, AffineScheme())
    assert (
        outputs_sqnr_db(outputs_of(program, x), reference) > outputs_sqnr_db(outputs_of(narrow, x), reference) + 3.0
    )


@given(st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_the_proof_of_an_accumulator_is_what_the_worst_input_reaches(seed: int, zero: int, transposed: bool) -> None:
    rng = np.random.default_rng(seed)
    shape = (4, 3, 1, 1) if transposed else (6, 2, 1, 1)  # two groups, six outputs
    weight = rng.integers(-127, 128, shape)
    bias = rng.integers(-(1 << 20), 1 << 20, 6).astype(np.int32)
    source = AffineTensor("x", (4, 1, 1), Affine(8, (1.0,), (zero,)))
    rows = output_rows(weight, np.zeros((1, 1, 1, 1), np.int64), 2, transposed=transposed)
    reached = []
    for output in range(6):  # by hand: which inputs this output reads, with which weights
        group = output // 3
        taps = weight[2 * group : 2 * group + 2, output % 3, 0, 0] if transposed else weight[output, :, 0, 0]
        assert sorted(rows[output]) == sorted(taps)
        values = [sum(int(w) * (x - zero) for w, x in zip(taps, xs, strict=True)) for xs in _corners(2)]
        reached += [max(values) + int(bias[output]), min(values) + int(bias[output])]
    fits = min(reached) >= -(1 << 31) and max(reached) < 1 << 31
    assert (conv_accumulator(rows, bias, source, "c", wide=True) == "int32") == fits
    larger = (bias.astype(np.int64) + (1 << 31) - 1 - max(reached)).astype(np.int64)  # the largest just fits
    assert conv_accumulator(rows, larger, source, "c", wide=True) == "int32"
    assert conv_accumulator(rows, larger + 1, source, "c", wide=True) == "int64"
    with pytest.raises(ModelError, match="beyond 32 bits"):
        conv_accumulator(rows, larger + 1, source, "c", wide=False)


def _corners(count: int) -> list[tuple[int, ...]]:
    if count == 0:
        return [()]
    return [(end, *rest) for end in (0, 255) for rest in _corners(count - 1)]


def test_accumulators_say_what_they_need() -> None:
    program = program_for(network(3, ["conv", "add"]), SIXTEEN)
    convolution = next(op for op in program.ops if isinstance(op, AffineConv))
    addition = next(op for op in program.ops if isinstance(op, AffineAdd))
    assert (convolution.accumulator, addition.accumulator) == ("int64", "int64")
    assert (convolution.proof, addition.proof) == ("proven", "proven")
    x = program.tensors["x"]
    worst = np.where(convolution.weight[0] > 0, x.format.qmax, x.format.qmin)[None].astype(x.format.dtype)
    worst = np.pad(worst, ((0, 0), (0, 0), (0, 5), (0, 5)), constant_values=x.zero_point)
    acc = convolution.accumulators(worst, x, (4, 8, 8))[0, 0, 1, 1]
    by_hand = sum(
        int(w) * (int(v) - x.zero_point)
        for w, v in zip(convolution.weight[0].ravel(), worst[0, :, :3, :3].ravel(), strict=True)
    )
    assert acc == by_hand + int(convolution.bias[0])
    assert acc > 1 << 31
    assert {op.accumulator for op in program_for(network(3, ["conv", "add"]), AffineScheme()).ops} == {"int32"}


def test_headroom_is_for_16_bits_and_not_where_nothing_can_be() -> None:
    model = network(1, ["conv", "relu6"])
    stats = calibrate(model, {"x": list(images(1, 8))}, {}, method="max")
    scheme = AffineScheme(activation_method="max")
    seen = stats.ranges["x"]
    slack = 0.25 * max(-seen.observed_low, seen.observed_high)
    narrow, wide = (activation_format(stats, "x", scheme, bits) for bits in (8, 16))
    assert narrow == affine_format(seen.observed_low, seen.observed_high, symmetric=False)
    assert wide == affine_format(seen.observed_low - slack, seen.observed_high + slack, symmetric=False, bits=16)
    assert activation_format(stats, "v0", scheme, 16).zero_point == (0,), "behind a Relu nothing is below zero"
    program = quantize_affine(LoweredLayers.of(model), stats, replace(scheme, activation_bits=16))
    top = program.tensors["v1"]
    assert (top.format.qmax - top.zero_point) * top.scale <= 1.5 + 1e-6, "nor beyond the bound of a Relu6"


def test_integers_of_16_bits_come_back_from_the_export() -> None:
    program = program_for(network(6, ["conv", "conv"]), replace(SIXTEEN, symmetric_weights=False))
    exported = qdq_model(program)
    assert {entry.version for entry in exported.opset_import} == {21}
    assert {entry.version for entry in qdq_model(program_for(network(6, ["conv"]), AffineScheme())).opset_import} == {
        13
    }
    parts = read_qdq(exported)
    convolutions = {op.name: op for op in program.ops if isinstance(op, AffineConv)}
    assert len(parts.weights) == len(convolutions) == 2
    for found in parts.weights.values():
        assert found.values.dtype == np.int16
    form = program.tensors["x"].format
    low, high = ((end - form.zero_point[0]) * form.scale[0] for end in (form.qmin, form.qmax))
    assert (parts.ranges["x"].low, parts.ranges["x"].high) == pytest.approx((low, high), rel=1e-6)


@pytest.mark.parametrize("symmetric", [True, False])
def test_weights_of_16_bits_are_within_half_a_unit(symmetric: bool) -> None:
    weight = np.random.default_rng(0).normal(0, 1, (3, 40, 1, 1))
    form = weight_format(weight, 0, 1, AffineScheme(symmetric_weights=symmetric, weight_method="max"), 16)
    off = np.abs(form.dequantize(form.quantize(weight)) - weight) / np.asarray(form.scale)[:, None, None, None]
    assert off.max() <= 0.51
    assert max(form.scale) < np.abs(weight).max() * 2 / 65000
