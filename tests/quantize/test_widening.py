"""Ranges that grow to their formats: what the format holds is not clipped any more, and nothing is paid for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from nnkit.distance import distance
from nnkit.graph import Model
from nnkit.program import Conv2d, Program
from nnkit.quantize import FixedPointScheme, fixed_point, quantize, unproven
from nnkit.quantize.lowering import lower
from nnkit.simulate import Watch, simulate

from .conftest import float_values, make_model, stats_of

Arrays = dict[str, np.ndarray[Any, Any]]


def _not_widened(model: Model, feeds: Arrays, monkeypatch: pytest.MonkeyPatch, **scheme: Any) -> Program:
    with monkeypatch.context() as patch:
        patch.setattr(fixed_point, "widened", lambda program, formats, stats, scheme: formats)
        return quantize(lower(model), stats_of(float_values(model, feeds)), FixedPointScheme(**scheme))


@pytest.mark.parametrize("bits", [8, 16])
def test_values_beyond_the_calibrated_range_are_kept_where_the_format_holds_them(
    conv_relu: tuple[Model, Arrays], bits: int
) -> None:
    model, feeds = conv_relu
    scheme = FixedPointScheme(bits=bits, headroom=1.0, accumulator_bits=64)  # 32 bits would hold x back
    program = quantize(lower(model), stats_of(float_values(model, feeds)), scheme)
    # As far beyond what was seen as the ranges of all values go.
    tensors = program.tensors
    room = min(
        min(-tensors[name].low, tensors[name].high) * 2.0 ** -tensors[name].fixed.frac / np.abs(values).max()
        if tensors[name].low
        else tensors[name].high * 2.0 ** -tensors[name].fixed.frac / values.max()
        for name, values in float_values(model, feeds).items()
        if name in tensors
    )
    assert room > 1.05, "the ranges are meant to hold more than was seen"
    louder = {"x": feeds["x"] * np.float32(0.999 * room)}
    stored = simulate(program, {"x": program.tensors["x"].fixed.quantize(louder["x"][0])})
    expected = float_values(model, louder)["y"]
    found = distance(program.tensors["y"].fixed.dequantize(stored["y"]), expected)
    assert found.sqnr_db > (55 if bits == 16 else 18)


@pytest.mark.parametrize("bits", [8, 16])
def test_formats_and_weights_stay_and_all_is_proven(
    conv_relu: tuple[Model, Arrays], bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, feeds = conv_relu
    narrow = _not_widened(model, feeds, monkeypatch, bits=bits)
    wide = quantize(lower(model), stats_of(float_values(model, feeds)), FixedPointScheme(bits=bits))
    assert not unproven(wide)
    grown = 0
    for name, tensor in wide.tensors.items():
        before = narrow.tensors[name]
        assert tensor.format == before.format
        assert tensor.low <= before.low
        assert tensor.high >= before.high
        grown += (tensor.low, tensor.high) != (before.low, before.high)
    assert grown
    for was, now in zip(narrow.ops, wide.ops, strict=True):
        assert isinstance(was, Conv2d)
        assert isinstance(now, Conv2d)
        assert np.array_equal(was.weight, now.weight)
        assert was.bits_lost == now.bits_lost


def test_no_accumulator_wraps_at_the_ends_of_widened_ranges(conv_relu: tuple[Model, Arrays]) -> None:
    model, feeds = conv_relu
    program = quantize(lower(model), stats_of(float_values(model, feeds)), FixedPointScheme(bits=16))
    tensor, watch, generator = program.tensors["x"], Watch(), np.random.default_rng(0)
    for _ in range(4):
        x = np.where(generator.random(tensor.shape) < 0.5, tensor.low, tensor.high)
        simulate(program, {"x": x}, watch=watch)
    assert all(seen.wraps == 0 for seen in watch.ops.values())


def test_what_clips_on_purpose_keeps_its_range() -> None:
    nodes = [helper.make_node("Clip", ["x", "low", "high"], ["y"], name="c")]
    bounds = {"low": np.float32(0.0), "high": np.float32(6.0)}
    model = make_model(nodes, bounds, {"x": (1, 1, 4, 4)}, ["y"])
    seen = stats_of({"x": np.asarray([-3.0, 7.0]), "y": np.asarray([0.0, 6.0])})
    program = quantize(lower(model), seen, FixedPointScheme(bits=16))
    y = program.tensors["y"]
    assert (y.low, y.high) == (0, round(6.0 * 2**y.fixed.frac))
    assert program.tensors["x"].high == program.tensors["x"].fixed.qmax
