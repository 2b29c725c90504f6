"""Tables of every kind: told apart, converted, and pinned formats that give the same program again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from nnkit.calibrate import CalibrationStats, ValueRange, write_table
from nnkit.errors import ModelError, RecipeError, UserFileError
from nnkit.graph import Model
from nnkit.program import Conv2d
from nnkit.quantize import FixedPointScheme, quantize, read_pinned_formats
from nnkit.quantize.affine import AffineScheme, qdq_model, quantize_affine
from nnkit.quantize.lowered import LoweredLayers
from nnkit.quantize.lowering import lower
from nnkit.quantize.pinned import format_pinned
from nnkit.quantize.tables import read_any_table, write_ranges
from nnkit.simulate import simulate
from nnkit_tpu.calibration_table import table_format

from .conftest import float_values, make_model, stats_of

Network = tuple[Model, dict[str, np.ndarray[Any, Any]]]
RANGES = {"x": ValueRange(-1.5, 2.25, -1.5, 2.25), "y/1:0": ValueRange(0.0, 6.0, 0.0, 6.0)}


@pytest.mark.parametrize("kind", ["nnkit", "tpu"])
def test_written_ranges_come_back_and_their_kind_is_told(tmp_path: Path, kind: str) -> None:
    formats = {"tpu": table_format()}
    path = tmp_path / "table"
    write_ranges(RANGES, path, formats.get(kind))
    found = read_any_table(path, formats)
    assert found.kind == kind
    assert dict(found.ranges) == RANGES
    other = tmp_path / "other"
    write_ranges(found.ranges, other, None if kind == "tpu" else formats["tpu"])
    assert dict(read_any_table(other, formats).ranges) == RANGES


def test_a_text_of_no_kind_names_those_that_there_are(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_text("a: 1\n")
    with pytest.raises(UserFileError, match="no table of a known kind") as caught:
        read_any_table(path)
    assert caught.value.remedy == "give a table of nnkit, pinned formats (JSON), or a QDQ model"
    with pytest.raises(RecipeError, match="2 columns; a line has 4"):  # the only other kind says what is wrong
        read_any_table(path, {"tpu": table_format()})


def test_a_calibration_of_ours_is_read_whatever_its_names(tmp_path: Path) -> None:
    write_table(CalibrationStats(RANGES, "max", 7, "abc"), tmp_path / "calibration.yaml")
    assert dict(read_any_table(tmp_path / "calibration.yaml").ranges) == RANGES


def test_scales_of_an_export_are_read_as_ranges(tmp_path: Path, conv_relu: Network) -> None:
    model, feed = conv_relu
    program = quantize_affine(
        LoweredLayers.of(model),
        stats_of(float_values(model, feed)),
        AffineScheme(activation_method="max", bias_correction=False),
    )
    onnx.save(qdq_model(program), tmp_path / "net.onnx")
    found = read_any_table(tmp_path / "net.onnx")
    assert found.kind == "qdq"
    for tensor in program.tensors.values():
        names = [name for name in found.ranges if name.removesuffix(".value") == tensor.name]
        ends = [(end - tensor.zero_point) * tensor.scale for end in (tensor.format.qmin, tensor.format.qmax)]
        assert [found.ranges[names[0]].low, found.ranges[names[0]].high] == pytest.approx(ends, rel=1e-6)


@pytest.mark.parametrize("bits", [8, 16])
def test_pinned_formats_of_a_program_give_it_again(tmp_path: Path, conv_relu: Network, bits: int) -> None:
    model, feed = conv_relu
    stats = stats_of(float_values(model, feed))
    scheme = FixedPointScheme(bits=bits, unsigned="never")
    program = quantize(lower(model), stats, scheme)
    path = tmp_path / "formats.json"
    path.write_text(format_pinned(program))
    again = quantize(lower(model), stats, replace(scheme, pinned=read_pinned_formats(path)))
    for name, tensor in program.tensors.items():
        assert again.tensors[name].format == tensor.format
    for a, b in zip(program.ops, again.ops, strict=True):
        assert isinstance(a, Conv2d)
        assert isinstance(b, Conv2d)
        assert np.array_equal(a.weight, b.weight)
        assert a.stage.shift == b.stage.shift
    found = read_any_table(path)
    assert found.kind == "pinned"
    form = program.tensors[program.outputs[0]].fixed
    assert found.ranges[program.ops[-1].name].high == form.qmax * 2.0**-form.frac
    stored = {"x": program.tensors["x"].fixed.quantize(feed["x"][0])}
    unit = 2.0**-form.frac
    off = (simulate(program, stored)["y"].astype(float) - simulate(again, stored)["y"]) * unit
    assert np.abs(off).max() <= (2 if bits == 16 else 4) * unit  # biases have `bits` bits there, 32 here


def test_a_program_of_two_widths_has_no_pinned_formats(conv_relu: Network) -> None:
    model, feed = conv_relu

    program = quantize(
        lower(model).with_sixteen_bits(["y"]), stats_of(float_values(model, feed)), FixedPointScheme(bits=8)
    )
    with pytest.raises(ModelError, match="one number of bits"):
        format_pinned(program)


@pytest.mark.parametrize("damage", ["type", "values", "inputs", "scale"])
def test_qdq_models_whose_scales_cannot_be_read_are_refused(tmp_path: Path, damage: str) -> None:
    """Found by fuzzing: tensors of an unknown type, or without their values; scales that are not finite."""
    tensors = [
        numpy_helper.from_array(np.asarray(value), name) for name, value in (("s", np.float32(1)), ("z", np.int8(0)))
    ]
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["x.q"], name="q")
    if damage == "type":
        tensors[0].data_type = 35
    elif damage == "values":
        tensors[1].ClearField("raw_data")
    elif damage == "inputs":
        del node.input[:]
    else:
        tensors[0] = numpy_helper.from_array(np.asarray(np.inf, np.float32), "s")
    onnx.save(helper.make_model(helper.make_graph([node], "g", [], [], tensors)), tmp_path / "a.onnx")
    with pytest.raises(UserFileError, match=r"cannot be read|not finite") as caught:
        read_any_table(tmp_path / "a.onnx")
    assert caught.value.remedy


def test_files_of_no_kind_are_refused(tmp_path: Path, conv_relu: Network) -> None:
    with pytest.raises(UserFileError, match="does not exist"):
        read_any_table(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(UserFileError, match="neither text"):
        read_any_table(tmp_path / "binary")
    onnx.save(conv_relu[0].proto(), tmp_path / "float.onnx")
    with pytest.raises(UserFileError, match="no QuantizeLinear"):
        read_any_table(tmp_path / "float.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    with pytest.raises(UserFileError, match="cannot be read"):
        read_any_table(tmp_path / "broken.onnx")


def test_a_pool_whose_format_the_file_cannot_say_is_refused() -> None:
    rng = np.random.default_rng(0)
    model = make_model(
        [
            helper.make_node("Conv", ["x", "w1"], ["a"], name="first"),
            helper.make_node("AveragePool", ["a"], ["b"], name="mean", kernel_shape=[8, 8]),
            helper.make_node("Conv", ["b", "w2"], ["y"], name="last"),
        ],
        {"w1": np.ones((2, 1, 1, 1), np.float32), "w2": np.ones((3, 2, 1, 1), np.float32)},
        {"x": (1, 1, 8, 8)},
        ["y"],
    )
    feed = {"x": rng.standard_normal((1, 1, 8, 8)).astype(np.float32)}  # means are much smaller than values
    program = quantize(lower(model), stats_of(float_values(model, feed)), FixedPointScheme(bits=16))
    assert program.tensors["a"].fixed.frac < program.tensors["b"].fixed.frac
    with pytest.raises(ModelError, match="these have one of their own: mean"):
        format_pinned(program)


@pytest.mark.parametrize("fraction_bits", [-65, -64, 64, 65])
def test_fraction_bits_have_limits_that_are_allowed_themselves(fraction_bits: int, tmp_path: Path) -> None:
    path = tmp_path / "formats.json"
    path.write_text(json.dumps({"bits": 16, "input_frac": fraction_bits, "layers": []}))
    if abs(fraction_bits) == 64:
        assert read_pinned_formats(path).input_frac == fraction_bits
    else:
        with pytest.raises(RecipeError, match="`input_frac` must be an integer between -64 and 64, not one beyond"):
            read_pinned_formats(path)
