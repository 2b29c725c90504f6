"""The quantiser: published formulas by hand, proofs against exhaustive search, accuracy against ONNX Runtime."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from onnx import helper

from nnkit.calibrate.stats import CalibrationStats
from nnkit.distance import distance
from nnkit.errors import ModelError, RecipeError, UserFileError
from nnkit.graph import LayerTags, Model, ValueTags
from nnkit.input_range import InputRange
from nnkit.program import Conv2d, Fixed
from nnkit.quantize import FixedPointScheme, quantize, read_pinned_formats, unproven
from nnkit.quantize.lowering import lower
from nnkit.simulate import Watch, simulate

from .conftest import float_values, make_model, mark, stats_of

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("accumulate", ["wide", "running"])
def test_program_is_close_to_float_and_proven(conv_relu: tuple[Model, Arrays], bits: int, accumulate: str) -> None:
    model, feeds = conv_relu
    values = float_values(model, feeds)
    program = quantize(lower(model), stats_of(values), FixedPointScheme(bits=bits, accumulate=accumulate))  # type: ignore[arg-type]
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
        lower(model),
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
    program = quantize(lower(tagged), stats_of(float_values(model, feeds)), FixedPointScheme(bits=8))
    bits = {name: tensor.format.bits for name, tensor in program.tensors.items()}
    assert bits == {"x": 8, "r1": 16, "y": 16}
    assert [op.weight_bits for op in program.ops if isinstance(op, Conv2d)] == [8, 16]
    assert program.ops[1].tags == ("hp",)


def test_unsigned_policies(conv_relu: tuple[Model, Arrays]) -> None:
    model, feeds = conv_relu
    stats = stats_of(float_values(model, feeds))
    for bits, policy, signed in ((8, "auto", False), (8, "never", True), (16, "auto", True), (16, "always", False)):
        program = quantize(lower(model), stats, FixedPointScheme(bits=bits, unsigned=policy))  # type: ignore[arg-type]
        assert program.tensors["r1"].fixed.signed is signed
        assert program.tensors["y"].fixed.signed
        assert program.tensors["r1"].low == 0


def test_raw_pixels_are_taken_as_they_are(conv_relu: tuple[Model, Arrays]) -> None:
    model, _ = conv_relu
    feeds = {"x": np.random.default_rng(1).integers(0, 256, (1, 3, 12, 12)).astype(np.float32)}
    stats = stats_of(float_values(model, feeds))
    pixels = {"x": InputRange(0, 255, integral=True)}
    for bits, form in ((16, Fixed(16, 0)), (8, Fixed(8, 0, signed=False))):
        program = quantize(lower(model), stats, FixedPointScheme(bits=bits, input_ranges=pixels))
        tensor = program.tensors["x"]
        assert tensor.fixed == form
        assert (tensor.low, tensor.high) == (0, 255)


@pytest.mark.parametrize(("method", "frac"), [("max", 12), ("mse", 12), ("kl", 12), ("percentile", 13)])
def test_16_bits_leave_room_for_unseen_values_but_where_a_percentile_clips_on_purpose(method: str, frac: int) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"], name="r")], {}, {"x": (1, 1, 4, 4)}, ["y"])
    seen = stats_of({"x": np.asarray([0.0, 3.5]), "y": np.asarray([0.0, 3.5])})
    seen = replace(seen, method=method, percentile=99.9 if method == "percentile" else None)
    program = quantize(
        lower(model), seen, FixedPointScheme(bits=16, headroom=1.25)
    )  # 3.5 * 1.25 does not fit 13 bits
    assert program.tensors["y"].format == Fixed(16, frac)
    narrow = quantize(lower(model), seen, FixedPointScheme(bits=8, headroom=1.25))
    assert narrow.tensors["x"].format == Fixed(8, 5), "8 bits have no headroom: 4.375 would not fit 5 bits"


def test_everything_unsupported_is_listed_at_once() -> None:
    nodes = [
        helper.make_node("Sin", ["x"], ["s"], name="gate"),
        helper.make_node("Cos", ["s"], ["y"], name="phase"),
    ]
    model = make_model(nodes, {}, {"x": (1, 2, 3, 3)}, ["y"])
    with pytest.raises(ModelError) as caught:
        quantize(lower(model), stats_of({}), FixedPointScheme())
    assert "gate (Sin)" in str(caught.value)
    assert "phase (Cos)" in str(caught.value)


def test_nan_weights_are_refused() -> None:
    weight = np.full((1, 1, 1, 1), np.nan, np.float32)
    model = make_model(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="bad")], {"w": weight}, {"x": (1, 1, 2, 2)}, ["y"]
    )
    stats = stats_of({"x": np.ones(1), "y": np.ones(1)})
    with pytest.raises(ModelError, match="NaN"):
        quantize(lower(model), stats, FixedPointScheme())


def _pins(**changes: int) -> dict[str, Any]:
    layer = {"layer": "first", "input_frac": 12, "weight_frac": 14, "bias_frac": 11, "output_frac": 11, "norm": 15}
    second = {"layer": "second", "input_frac": 11, "weight_frac": 14, "bias_frac": 10, "output_frac": 10, "norm": 15}
    return {"bits": 16, "input_frac": 12, "layers": [{**layer, **changes}, second]}


@pytest.mark.parametrize(
    ("bits", "unsigned", "expected"),
    [
        (8, "never", Fixed(8, 0, signed=False)),  # 0 to 255 need their ninth bit, whatever the policy
        (16, "never", Fixed(16, 0)),
        (16, "always", Fixed(16, 0, signed=False)),
    ],
)
def test_raw_pixels_under_each_policy_of_signs(
    conv_relu: tuple[Model, Arrays], bits: Literal[8, 16], unsigned: Literal["never", "always"], expected: Fixed
) -> None:
    model, feeds = conv_relu
    pixels = {"x": InputRange(0, 255, integral=True)}
    scheme = FixedPointScheme(bits=bits, unsigned=unsigned, input_ranges=pixels)
    program = quantize(lower(model), stats_of(float_values(model, feeds)), scheme)
    assert program.tensors["x"].fixed == expected


def test_pinned_formats_are_kept(conv_relu: tuple[Model, Arrays], tmp_path: Path) -> None:
    model, feeds = conv_relu
    path = tmp_path / "formats.json"
    path.write_text(json.dumps(_pins()))
    program = quantize(
        lower(model), stats_of(float_values(model, feeds)), FixedPointScheme(pinned=read_pinned_formats(path))
    )
    first, second = program.ops
    assert isinstance(first, Conv2d)
    assert isinstance(second, Conv2d)
    assert [program.tensors[n].fixed.frac for n in ("x", "r1", "y")] == [12, 11, 10]
    # Whatever calibration saw, a layer clips where its format ends, or its activation.
    assert [(program.tensors[n].low, program.tensors[n].high) for n in ("r1", "y")] == [(0, 32767), (-32768, 32767)]
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
        quantize(
            lower(model), stats_of(float_values(model, feeds)), FixedPointScheme(pinned=read_pinned_formats(path))
        )


def _one_layer(
    weight: float, bias: tuple[float, ...], tmp_path: Path, **fracs: int
) -> tuple[Model, CalibrationStats, FixedPointScheme]:
    """A 1x1 convolution of one channel under pinned formats; a wide accumulator's room for any fraction of them."""
    weights = np.full((len(bias), 1, 1, 1), weight, np.float32)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], name="layer")]
    model = make_model(nodes, {"w": weights, "b": np.float32(bias)}, {"x": (1, 1, 2, 2)}, ["y"])
    stats = stats_of({"x": np.ones(1), "y": np.full(1, 8.0)})
    pins = {"layer": "layer", "input_frac": 8, "weight_frac": 12, "output_frac": 8, "norm": 12, "bias_frac": 12}
    pins |= fracs
    pins["norm"] = pins["input_frac"] + pins["weight_frac"] - pins["output_frac"]
    path = tmp_path / "formats.json"
    path.write_text(json.dumps({"bits": 16, "input_frac": 8, "layers": [pins]}))
    return model, stats, FixedPointScheme(pinned=read_pinned_formats(path))


@pytest.mark.parametrize(
    ("weight", "fracs", "message", "finest"),
    [
        (1.0, {"bias_frac": 15}, "bias_frac 15 saturates 2 of 3 biases: 16 bits end at 0.999969", {"bias_frac": 12}),
        (-4.1, {"weight_frac": 13}, "weight_frac 13 saturates 3 of 3 weights.*magnitude is 4.1", {"weight_frac": 12}),
    ],
)
def test_pins_too_fine_for_the_numbers_name_the_finest_that_hold_them(
    weight: float, fracs: dict[str, int], message: str, finest: dict[str, int], tmp_path: Path
) -> None:
    """5 * 2^12 and 4.1 * 2^12 are below 2^15, 5 * 2^13 and 4.1 * 2^13 are not."""
    bias = (1.5, 5.0, -0.5)
    model, stats, scheme = _one_layer(weight, bias, tmp_path, **fracs)
    with pytest.raises(RecipeError, match=message) as refused:
        quantize(lower(model), stats, scheme)
    ((key, frac),) = finest.items()
    assert refused.value.remedy == f"{key} {frac} is the finest that holds them"
    model, stats, scheme = _one_layer(weight, bias, tmp_path, **finest)
    (op,) = quantize(lower(model), stats, scheme).ops
    assert isinstance(op, Conv2d)
    np.testing.assert_array_equal(op.bias, np.array(bias) * 2.0**12)


def test_a_pin_may_lose_the_one_unit_that_the_published_formula_does(tmp_path: Path) -> None:
    """1.0 * 2^15 is one beyond what 16 bits hold."""
    model, stats, scheme = _one_layer(1.0, (1.0, -1.0), tmp_path, bias_frac=15)
    (op,) = quantize(lower(model), stats, scheme).ops
    assert isinstance(op, Conv2d)
    assert op.bias.tolist() == [32767, -32768]


def test_broken_pin_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "formats.json"
    path.write_text("{")
    with pytest.raises(UserFileError, match="not valid JSON"):
        read_pinned_formats(path)
    with pytest.raises(UserFileError, match="does not exist"):
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
    program = quantize(lower(model), stats, scheme)
    stored = simulate(program, {"image": image[None]})
    np.testing.assert_array_equal(stored["descriptor"].ravel(), reference["descriptor_q10"])
    assert len(unproven(program)) == 11, "the published formats miss the running proof in 11 of 26 layers"
