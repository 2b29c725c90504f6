"""The quantiser: published formulas by hand, proofs against exhaustive search, accuracy against ONNX Runtime."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from nnkit.errors import ModelError, RecipeError, UserFileError
from nnkit.graph import LayerTags, Model, ValueTags
from nnkit.program import Add, Conv2d, Fixed, Pool
from nnkit.quantize import FixedPointScheme, InputRange, quantize, read_pinned_formats, unproven
from nnkit.quantize.integer_bits import fraction_bits
from nnkit.quantize.op_builders import average_multiplier
from nnkit.quantize.proof import running_bound, wide_bound
from nnkit.simulate import Watch, simulate
from nnkit.verify.metrics import distance

from .conftest import float_values, make_model, mark, stats_of

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.mark.parametrize(
    ("extreme", "bits", "signed", "frac"),
    [
        (3.0, 16, True, 13),  # ceil(log2 3) = 2 integer bits: 15 - 2
        (0.3, 16, True, 16),  # ceil(log2 0.3) = -1
        (200.0, 8, True, -1),  # ceil(log2 200) = 8
        (200.0, 8, False, 0),  # unsigned: one bit more
        (
            4.0,
            16,
            True,
            12,
        ),  # exact power of two: 4 * 2^13 = 32768 does not fit, the published formula is a bit short
        (0.0, 16, True, 15),  # all zero: the published formula is undefined
        (255.0, 16, True, 7),
    ],
)
def test_fraction_bits_by_hand(extreme: float, bits: int, signed: bool, frac: int) -> None:
    assert fraction_bits(0.0, extreme, bits, signed) == frac


@given(st.floats(1e-4, 1e4), st.sampled_from([8, 16]))
def test_fraction_bits_is_the_finest_that_fits(extreme: float, bits: int) -> None:
    frac = fraction_bits(-extreme, extreme, bits, True)
    form = Fixed(bits, frac)
    assert np.floor(extreme * 2.0**frac + 0.5) <= form.qmax
    assert frac == 30 or np.floor(extreme * 2.0 ** (frac + 1) + 0.5) > form.qmax


def test_ranges_that_fit_no_format_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 8 bits"):
        fraction_bits(0, 1e9, 8, True)


@given(st.integers(0, 2**32), st.integers(-40, 0), st.integers(0, 40), st.integers(0, 3), st.integers(0, 4))
def test_wide_bound_is_the_exact_worst_case(seed: int, low: int, high: int, bias_shift: int, shift: int) -> None:
    rng = np.random.default_rng(seed)
    weight, bias = rng.integers(-9, 9, (2, 3, 1, 1)), rng.integers(-50, 50, 2)
    sums = [
        sum(int(w) * x for w, x in zip(weight[o].ravel(), taps, strict=True)) + (int(bias[o]) << bias_shift)
        for o in range(2)
        for taps in itertools.product((low, 0, high), repeat=3)
    ]
    bound = wide_bound(weight, bias, low, high, bias_shift, shift)
    rounding = (1 << (shift - 1)) if shift else 0
    assert bound.high == max([0, *sums]) + rounding
    assert bound.low == min([0, *sums])


def test_running_bound_by_hand() -> None:
    # 2^15 << 4, plus (|3| + |-2|) * 100, plus 2^3
    assert running_bound(np.array([[[[3, -2]]]]), -100, 90, 4, 16).high == (1 << 19) + 500 + 8


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("accumulate", ["wide", "running"])
def test_program_is_close_to_float_and_proven(conv_relu: tuple[Model, Arrays], bits: int, accumulate: str) -> None:
    model, feeds = conv_relu
    values = float_values(model, feeds)
    program = quantize(model, stats_of(values), FixedPointScheme(bits=bits, accumulate=accumulate))  # type: ignore[arg-type]
    assert [op.kind for op in program.ops] == ["conv2d", "conv2d"]
    assert not unproven(program)
    tensor = program.tensors["x"]
    watch = Watch()
    stored = simulate(program, {"x": tensor.fixed.quantize(feeds["x"][0])}, watch=watch)
    found = distance(program.tensors["y"].fixed.dequantize(stored["y"]), values["y"])
    assert found.sqnr_db > (55 if bits == 16 else 18)
    assert all(seen.wraps == 0 for seen in watch.ops.values())


@pytest.mark.parametrize("accumulate", ["wide", "running"])
def test_proven_programs_never_wrap_on_extreme_inputs(conv_relu: tuple[Model, Arrays], accumulate: str) -> None:
    model, feeds = conv_relu
    program = quantize(
        model,
        stats_of(float_values(model, feeds)),
        FixedPointScheme(accumulate=accumulate),  # type: ignore[arg-type]
    )
    tensor = program.tensors["x"]
    rng = np.random.default_rng(0)
    watch = Watch()
    first = program.ops[0]
    assert isinstance(first, Conv2d)
    for sign in (1, -1):
        x = np.where(rng.random(tensor.shape) < 0.5, tensor.low, tensor.high)
        # the worst case of one output: every tap at the extreme that its weight's sign asks for
        x[:, 4:7, 4:7] = np.where(sign * first.weight[0] > 0, tensor.high, tensor.low)
        simulate(program, {"x": x}, watch=watch)
    assert all(seen.wraps == 0 for seen in watch.ops.values())
    assert watch.of("first").accumulator_max > 1 << 27, "the input is meant to come near the accumulator's limit"


def test_tagged_layers_have_sixteen_bits(conv_relu: tuple[Model, Arrays]) -> None:
    model, feeds = conv_relu
    tagged = Model(
        model.onnx_bytes, LayerTags({"y": ValueTags(hp=True, origins=("second",))}), model.inputs, model.outputs, 17
    )
    program = quantize(tagged, stats_of(float_values(model, feeds)), FixedPointScheme(bits=8))
    bits = {name: tensor.format.bits for name, tensor in program.tensors.items()}
    assert bits == {"x": 8, "r1": 16, "y": 16}
    assert [op.weight_bits for op in program.ops if isinstance(op, Conv2d)] == [8, 16]
    assert program.ops[1].tags == ("hp",)


def test_unsigned_policies(conv_relu: tuple[Model, Arrays]) -> None:
    model, feeds = conv_relu
    stats = stats_of(float_values(model, feeds))
    for bits, policy, signed in ((8, "auto", False), (8, "never", True), (16, "auto", True), (16, "always", False)):
        program = quantize(model, stats, FixedPointScheme(bits=bits, unsigned=policy))  # type: ignore[arg-type]
        assert program.tensors["r1"].fixed.signed is signed
        assert program.tensors["y"].fixed.signed
        assert program.tensors["r1"].low == 0


def test_raw_pixels_are_taken_as_they_are(conv_relu: tuple[Model, Arrays]) -> None:
    model, _ = conv_relu
    feeds = {"x": np.random.default_rng(1).integers(0, 256, (1, 3, 12, 12)).astype(np.float32)}
    stats = stats_of(float_values(model, feeds))
    pixels = {"x": InputRange(0, 255, integral=True)}
    for bits, form in ((16, Fixed(16, 0)), (8, Fixed(8, 0, signed=False))):
        program = quantize(model, stats, FixedPointScheme(bits=bits, input_ranges=pixels))
        tensor = program.tensors["x"]
        assert tensor.fixed == form
        assert (tensor.low, tensor.high) == (0, 255)


@pytest.mark.parametrize(("method", "frac"), [("max", 12), ("mse", 12), ("kl", 12), ("percentile", 13)])
def test_16_bits_leave_room_for_unseen_values_but_where_a_percentile_clips_on_purpose(method: str, frac: int) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"], name="r")], {}, {"x": (1, 1, 4, 4)}, ["y"])
    seen = stats_of({"x": np.asarray([0.0, 3.5]), "y": np.asarray([0.0, 3.5])})
    seen = replace(seen, method=method, percentile=99.9 if method == "percentile" else None)
    program = quantize(model, seen, FixedPointScheme(bits=16, headroom=1.25))  # 3.5 * 1.25 does not fit 13 bits
    assert program.tensors["y"].format == Fixed(16, frac)
    narrow = quantize(model, seen, FixedPointScheme(bits=8, headroom=1.25))
    assert narrow.tensors["x"].format == Fixed(8, 5), "8 bits have no headroom: 4.375 would not fit 5 bits"


def test_concat_and_add_align_formats() -> None:
    rng = np.random.default_rng(5)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="small"),
        helper.make_node("Conv", ["x", "w2"], ["b"], name="large"),
        helper.make_node("Concat", ["a", "b"], ["cat"], name="cat", axis=1),
        helper.make_node("Conv", ["x", "w3"], ["c"], name="third"),
        helper.make_node("Add", ["c", "small"], ["y"], name="sum"),
        helper.make_node("Conv", ["x", "w4"], ["small"], name="fourth"),
    ]
    nodes = [*nodes[:4], nodes[5], nodes[4]]
    constants = {
        "w1": rng.normal(0, 0.01, (2, 3, 1, 1)).astype(np.float32),
        "w2": rng.normal(0, 9, (2, 3, 1, 1)).astype(np.float32),
        "w3": rng.normal(0, 5, (2, 3, 1, 1)).astype(np.float32),
        "w4": rng.normal(0, 0.02, (2, 3, 1, 1)).astype(np.float32),
    }
    model = make_model(nodes, constants, {"x": (1, 3, 5, 5)}, ["cat", "y"])
    feeds = {"x": rng.normal(0, 1, (1, 3, 5, 5)).astype(np.float32)}
    values = float_values(model, feeds)
    program = quantize(model, stats_of(values), FixedPointScheme())
    assert program.tensors["a"].format == program.tensors["b"].format == program.tensors["cat"].format
    add = next(op for op in program.ops if isinstance(op, Add))
    fracs = [program.tensors[name].fixed.frac for name in add.inputs]
    assert fracs[0] + add.shifts[0] == fracs[1] + add.shifts[1] == max(fracs)
    assert fracs[0] != fracs[1]
    stored = simulate(program, {"x": program.tensors["x"].fixed.quantize(feeds["x"][0])})
    for name in ("cat", "y"):
        assert distance(program.tensors[name].fixed.dequantize(stored[name]), values[name]).sqnr_db > 60


def test_average_pool_is_accurate_for_every_window() -> None:
    """The published 65536 // n is 3 % off for n = 3969; ours is within 2^-16 of 1/n."""
    for taps in range(1, 5000):
        multiplier, shift = average_multiplier(taps)
        assert abs(multiplier * taps / 2.0**shift - 1) < 2.0**-16


def test_global_average_against_onnx_runtime() -> None:
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["y"], name="gap")]
    model = make_model(nodes, {}, {"x": (1, 2, 63, 63)}, ["y"])
    feeds = {"x": np.random.default_rng(2).normal(1, 1, (1, 2, 63, 63)).astype(np.float32)}
    values = float_values(model, feeds)
    program = quantize(model, stats_of(values), FixedPointScheme())
    assert isinstance(program.ops[0], Pool)
    stored = simulate(program, {"x": program.tensors["x"].fixed.quantize(feeds["x"][0])})
    assert distance(program.tensors["y"].fixed.dequantize(stored["y"]), values["y"]).sqnr_db > 70


def test_everything_unsupported_is_listed_at_once() -> None:
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"], name="gate"),
        helper.make_node("Softmax", ["s"], ["y"], name="probabilities"),
    ]
    model = make_model(nodes, {}, {"x": (1, 2, 3, 3)}, ["y"])
    with pytest.raises(ModelError) as caught:
        quantize(model, stats_of({}), FixedPointScheme())
    assert "gate (Sigmoid)" in str(caught.value)
    assert "probabilities (Softmax)" in str(caught.value)


def test_nan_weights_are_refused() -> None:
    weight = np.full((1, 1, 1, 1), np.nan, np.float32)
    model = make_model(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="bad")], {"w": weight}, {"x": (1, 1, 2, 2)}, ["y"]
    )
    stats = stats_of({"x": np.ones(1), "y": np.ones(1)})
    with pytest.raises(ModelError, match="NaN"):
        quantize(model, stats, FixedPointScheme())


def _pins(**changes: int) -> dict[str, Any]:
    layer = {"layer": "first", "input_frac": 12, "weight_frac": 14, "bias_frac": 11, "output_frac": 11, "norm": 15}
    second = {"layer": "second", "input_frac": 11, "weight_frac": 14, "bias_frac": 10, "output_frac": 10, "norm": 15}
    return {"bits": 16, "input_frac": 12, "layers": [{**layer, **changes}, second]}


def test_pinned_formats_are_kept(conv_relu: tuple[Model, Arrays], tmp_path: Path) -> None:
    model, feeds = conv_relu
    path = tmp_path / "formats.json"
    path.write_text(json.dumps(_pins()))
    program = quantize(
        model, stats_of(float_values(model, feeds)), FixedPointScheme(pinned=read_pinned_formats(path))
    )
    first, second = program.ops
    assert isinstance(first, Conv2d)
    assert isinstance(second, Conv2d)
    assert [program.tensors[n].fixed.frac for n in ("x", "r1", "y")] == [12, 11, 10]
    assert (first.weight_frac, first.bias_frac, first.bias_shift, first.stage.shift) == (14, 11, 15, 15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": 14}, "norm is 14"),
        ({"input_frac": 11, "norm": 14}, "different fraction bits"),
        ({"output_frac": 12, "norm": 14}, "different fraction bits"),
        ({"layer": "frist"}, "no pinned formats for layer 'first'; the nearest entry is 'frist'"),
        ({"weight_frac": "a"}, "must be an integer"),
    ],
)
def test_contradicting_pins_are_refused(
    conv_relu: tuple[Model, Arrays], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    model, feeds = conv_relu
    path = tmp_path / "formats.json"
    path.write_text(json.dumps(_pins(**change)))
    with pytest.raises(RecipeError, match=message):
        quantize(model, stats_of(float_values(model, feeds)), FixedPointScheme(pinned=read_pinned_formats(path)))


def test_broken_pin_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "formats.json"
    path.write_text("{")
    with pytest.raises(UserFileError, match="not valid JSON"):
        read_pinned_formats(path)
    with pytest.raises(UserFileError, match="cannot read"):
        read_pinned_formats(tmp_path / "missing.json")


def test_published_network_matches_its_published_descriptor(shared_dir: Path) -> None:
    """The real network with its published formats: 512 of 512 values."""
    import onnx

    folder = shared_dir / "models" / "gap8_reid"
    proto = onnx.shape_inference.infer_shapes(onnx.load(folder / "reid.onnx"))
    producer = {node.output[0]: node for node in proto.graph.node}
    for node in proto.graph.node:
        if node.op_type == "Relu":
            mark(node, node.input[0])
        elif node.op_type == "MaxPool" and node.name == "pool1":
            mark(node, producer[producer[node.input[0]].input[0]].output[0])
    from nnkit.graph import InputSpec, OutputSpec

    model = Model(
        proto.SerializeToString(),
        LayerTags(),
        (InputSpec("image", (1, 1, 128, 128)),),
        (OutputSpec("descriptor", (1, 512)),),
        13,
    )
    reference = np.load(folder / "reference.npz")
    image = reference["image"]
    stats = stats_of(float_values(model, {"image": image[None, None].astype(np.float32)}))
    scheme = FixedPointScheme(
        accumulate="running",
        pinned=read_pinned_formats(folder / "published_formats.json"),
        input_ranges={"image": InputRange(0, 255, integral=True)},
    )
    program = quantize(model, stats, scheme)
    stored = simulate(program, {"image": image[None]})
    np.testing.assert_array_equal(stored["descriptor"].ravel(), reference["descriptor_q10"])
    assert len(unproven(program)) == 11, "the published formats miss the running proof in 11 of 26 layers"
