"""Corrections of power-of-two fixed point: kept where they help on held-out inputs, otherwise undone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import helper

from nnkit.calibrate import calibrate
from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.program import Program
from nnkit.quantize import FixedPointScheme, quantize, unproven
from nnkit.quantize.fixed_corrections import EQUALIZED, FIXED_CORRECTIONS, corrected
from nnkit.quantize.judge import Judging
from nnkit.quantize.lowered import LoweredLayers
from nnkit.samples import Sample

from .conftest import make_model, mark


def uneven() -> Model:
    """A depthwise layer whose channels differ by up to a thousand, taken back by the pointwise layer behind it."""
    generator = np.random.default_rng(4)
    width = np.float32(10.0) ** np.linspace(-1.5, 1.5, 8).astype(np.float32)
    constants = {
        "w1": generator.standard_normal((8, 1, 3, 3)).astype(np.float32) * width[:, None, None, None],
        "b1": generator.standard_normal(8).astype(np.float32) * width,
        "w2": generator.standard_normal((4, 8, 1, 1)).astype(np.float32) / width[None, :, None, None],
        "b2": generator.standard_normal(4).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], name="first", group=8, pads=[1, 1, 1, 1]),
        mark(helper.make_node("Relu", ["a"], ["ar"], name="r1"), "a"),
        helper.make_node("Conv", ["ar", "w2", "b2"], ["y"], name="second"),
    ]
    return make_model(nodes, constants, {"x": (1, 8, 8, 8)}, ["y"])


def inputs(count: int) -> list[Sample]:
    generator = np.random.default_rng(5)
    return [Sample(str(i), {"x": generator.random((1, 8, 8, 8)).astype(np.float32)}) for i in range(count)]


@pytest.fixture(scope="module")
def lowered() -> LoweredLayers:
    return LoweredLayers.of(uneven())


def statistics(model: Model, given: Sequence[Sample]) -> CalibrationStats:
    return calibrate(model, {"x": [sample.inputs["x"] for sample in given]}, {}, method="max")


def made(
    lowered: LoweredLayers,
    given: Sequence[Sample],
    wanted: Sequence[str] = FIXED_CORRECTIONS,
    *,
    asked: bool = False,
    scheme: FixedPointScheme | None = None,
) -> Program:
    scheme = scheme or FixedPointScheme(bits=8)
    return corrected(
        lowered,
        statistics(lowered.model, given),
        lambda network, ranges: quantize(network.layers, ranges, scheme),
        lambda count: given[:count],
        wanted,
        asked=asked,
    )


def decibels(lowered: LoweredLayers, program: Program, given: Sequence[Sample]) -> float:
    return Judging(lowered.model, given).accuracy(program).together_db


@pytest.mark.parametrize("asked", [False, True])
def test_channels_that_differ_are_equalised_and_their_values_are_called_so(
    lowered: LoweredLayers, *, asked: bool
) -> None:
    given = inputs(32)
    plain, better = made(lowered, given[:24], ()), made(lowered, given[:24], asked=asked)
    assert decibels(lowered, better, given[24:]) > decibels(lowered, plain, given[24:]) + 6.0
    assert not unproven(better)
    scaled = {name for name in better.tensors if name.endswith(EQUALIZED)}
    assert scaled == {f"ar{EQUALIZED}"}
    assert better.outputs == plain.outputs
    assert better.tensors["x"].format == plain.tensors["x"].format
    kept = [note for note in better.notes if note.startswith("equalisation kept: ")]
    assert len(kept) == 1


def test_ranges_of_scaled_values_come_from_all_images(lowered: LoweredLayers) -> None:
    """The last of 48 is louder than those that corrections are measured on."""
    given = inputs(48)
    loud = [*given[:-1], Sample("loud", {"x": 4.0 * given[-1].inputs["x"]})]
    quiet, better = made(lowered, given), made(lowered, loud)
    name = f"ar{EQUALIZED}"
    assert better.tensors[name].fixed.frac < quiet.tensors[name].fixed.frac


def test_too_few_images_leave_the_network_and_say_so(lowered: LoweredLayers) -> None:
    given = inputs(7)
    plain, same = made(lowered, given, ()), made(lowered, given)
    assert same.notes == ("weights are not corrected: that takes 8 calibration images, and there are 7",)
    assert decibels(lowered, same, given) == decibels(lowered, plain, given)
    with pytest.raises(RecipeError, match="there are 7"):
        made(lowered, given, asked=True)


def test_what_does_not_gain_beyond_chance_is_undone(lowered: LoweredLayers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A correction that adds noise instead."""
    from nnkit.quantize import fixed_corrections

    given = inputs(16)
    plain = made(lowered, given, ())
    louder = statistics(lowered.model, [Sample("", {"x": 8.0 * given[0].inputs["x"]})])
    coarse = quantize(lowered.layers, louder, FixedPointScheme(bits=8))
    monkeypatch.setattr(fixed_corrections, "with_corrected_biases", lambda model, program, samples: coarse)
    same = made(lowered, given, ("bias_correction",))
    assert same.notes[0].startswith("bias correction undone: ")
    assert decibels(lowered, same, given) == decibels(lowered, plain, given)


def test_sums_that_are_rounded_by_channel_are_refused(lowered: LoweredLayers) -> None:
    scheme = FixedPointScheme(bits=8, accumulate="running")
    with pytest.raises(RecipeError, match="rounded after every input channel"):
        made(lowered, inputs(16), asked=True, scheme=scheme)
