"""First convolutions of a large network in F16: which, for whom, what it is worth, and that the chips compute so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.calibrate.run import calibrate
from nnkit.calibrate.stats import MethodTrial
from nnkit.graph import Model
from nnkit.program import Program
from nnkit.quantize.judge import program_sqnr_db
from nnkit.recipe.sections import Calibration
from nnkit.rewrite import RewriteLog
from nnkit.samples import Sample
from nnkit.target import Quantization
from nnkit_tpu import float_inputs
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuConv, TpuMatMul
from nnkit_tpu.target import TpuTarget
from nnkit_tpu.toolchain import Toolchain

ASKED = {"corrections": ["float_inputs"]}


def _network(features: int, *, read_twice: bool = False, normalised: bool = False) -> Model:
    """A convolution of [1, 8, 12, 10], a rectifier and a fully connected layer with 960 weights for each feature.

    read_twice: a sum reads the input, too. normalised: a normalisation reads what a sum reads.
    """
    net = Net()
    first = net("Relu", net("Conv", "x", net.normal(8, 8, 1, 1)))
    if read_twice:
        first = net("Add", first, "x")
    if normalised:
        first = net("Add", first, net("LayerNormalization", first, net.positive(10), axis=-1))
    return net.model([net("MatMul", net("Flatten", first), net.normal(960, features, spread=0.05), to="y")])


def _samples(seed: int, count: int, model: Model) -> list[Sample]:
    random = np.random.default_rng(seed)
    shape = model.inputs[0].shape
    return [Sample("made", {"x": random.normal(0, 1, shape).astype(np.float32)}) for _ in range(count)]


def _program(
    model: Model, calibration: dict[str, object] = ASKED, *, chosen: bool = False, **options: object
) -> Program:
    """chosen: the method was, as with a recipe that leaves it to the target."""
    target, how = TpuTarget(), TpuOptions.model_validate({"chip": "bm1684x", **options})
    given = {"x": [sample.inputs["x"] for sample in _samples(1, 4, model)]}
    statistics = calibrate(model, given, {}, method="max")
    if chosen:
        object.__setattr__(statistics, "trials", (MethodTrial("max", 30.0),))
    lowered = target.lower(model, RewriteLog(), how)
    settings = Calibration.model_validate(calibration)
    return target.quantize(lowered, Quantization("net", statistics, settings, {}, lambda count: []), how)


LARGE, SMALL = 260, 240  # 30,000 weights for each of 8 channels lie between


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_a_large_network_reads_its_input_in_f16(chip: str) -> None:
    program = _program(_network(LARGE), {}, chosen=True, chip=chip)
    assert [op.mode for op in program.ops if isinstance(op, TpuConv | TpuMatMul)] == ["F16", "INT8"]
    assert [note for note in program.notes if "it reads an input" in note] == [
        f"{program.ops[0].name} runs in F16: it reads an input"
    ]


@pytest.mark.parametrize(
    ("model", "calibration", "options"),
    [
        (_network(SMALL), ASKED, {}),  # the first layer would be much of it
        (_network(LARGE, read_twice=True), ASKED, {}),  # the input has 8 bits for the sum
        (_network(LARGE, normalised=True), ASKED, {}),  # the sum would have 8 bits made of it
        (_network(LARGE), ASKED, {"chip": "cv181x"}),
        (_network(LARGE), ASKED, {"quant_input": True}),
        (_network(LARGE), {"corrections": []}, {}),
        (_network(LARGE), {"method": "max"}, {}),
    ],
)
def test_others_stay_integers(model: Model, calibration: dict[str, object], options: dict[str, object]) -> None:
    modes = [op.mode for op in _program(model, calibration, **options).ops if isinstance(op, TpuConv | TpuMatMul)]
    assert set(modes) == {"INT8"}


def test_what_was_asked_for_in_vain_is_told() -> None:
    told = [note for note in _program(_network(SMALL)).notes if "float_inputs changes nothing" in note]
    assert len(told) == 1
    assert not any("float_inputs" in note for note in _program(_network(SMALL), {}, chosen=True).notes)


def test_outputs_are_nearer_to_the_float_networks() -> None:
    model = _network(LARGE)
    plain, asked = _program(model, {"corrections": []}), _program(model)
    unseen = _samples(2, 8, model)
    assert program_sqnr_db(model, asked, unseen) > program_sqnr_db(model, plain, unseen) + 0.3


def _padded(net: Net) -> str:
    return net("Conv", net("Pad", "x", net.ints(0, 0, 1, 2, 0, 0, 2, 1)), net.normal(6, 8, 3, 3))


def _mirrored(net: Net) -> str:
    edges = net("Pad", "x", net.ints(0, 0, 1, 2, 0, 0, 2, 1), mode="reflect")
    return net("Conv", edges, net.normal(6, 8, 3, 3))


def _turned(net: Net) -> str:
    return net("Conv", net("Transpose", "x", perm=[0, 3, 1, 2]), net.normal(6, 10, 3, 3))


def _reshaped(net: Net) -> str:
    return net("Conv", net("Reshape", "x", net.ints(1, 2, 24, 20)), net.normal(6, 2, 3, 3))


def _halves(net: Net) -> str:
    one, other = (net("Slice", "x", net.ints(start), net.ints(start + 4), net.ints(1)) for start in (0, 4))
    return net("Add", net("Conv", one, net.normal(6, 4, 3, 3)), net("Conv", other, net.normal(6, 4, 3, 3)))


def _strided(net: Net) -> str:
    return net("Conv", "x", net.normal(6, 8, 5, 5), net.normal(6), strides=[2, 2], pads=[2, 2, 2, 2])


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
@pytest.mark.parametrize("first", [_padded, _mirrored, _turned, _reshaped, _halves, _strided])
def test_the_chip_model_agrees(
    first: Callable[[Net], str],
    chip: str,
    tpu_toolchain: Toolchain,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(float_inputs, "_FEWEST_WEIGHTS", 0)
    monkeypatch.setattr(float_inputs, "_MOST_WEIGHTS", 1.0)
    monkeypatch.setattr(float_inputs, "_MOST_PRODUCTS", 1.0)
    net = Net()
    model = net.model([net("Conv", net("Relu", first(net)), net.normal(4, 6, 3, 3), to="y")])
    report = built(model, f"chip: {chip}", tmp_path, corrections=["float_inputs"])
    assert sum("it reads an input" in note for note in report["quantization_notes"]) == 1 + (first is _halves)
    assert refuted(report) == []
