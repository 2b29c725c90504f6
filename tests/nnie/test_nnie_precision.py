"""Layers in 16 bits: the search on a network with one weak layer, and the table of the usual choices."""

from __future__ import annotations

import numpy as np
import pytest
from nnie_networks import Net

from nnkit.calibrate import calibrate
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.mixed_precision.diagnosis import measurer
from nnkit.mixed_precision.search import search
from nnkit.program import Fixed, Float
from nnkit.samples import Sample
from nnkit_nnie.context import Division
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.network import Network
from nnkit_nnie.ops import NnieWeighted
from nnkit_nnie.precision import (
    NnieDiagnosis,
    better_choice,
    first_convolutions,
    fully_connected,
    precision_table,
    suggestion,
)
from nnkit_nnie.segments import divide

FORMATS = {"data": Float(32)}


def descriptor() -> Model:
    net = Net(2)
    x = net.node("Relu", [net.conv(net.input("data", 3, 16, 16), (3, 8), "conv1", strides=[2, 2])], "relu1")
    x = net.node("Relu", [net.conv(x, (8, 16), "conv2", strides=[2, 2])], "relu2")
    x = net.node("Relu", [net.conv(x, (16, 32), "comp_fc", kernel=4, pad=0)], "relu3")
    return net.model(net.fc(net.node("Flatten", [x], "flat"), (32, 8), "pca"))


def samples(count: int = 4) -> list[Sample]:
    random = np.random.default_rng(0)
    return [Sample(f"{i}", {"data": random.normal(size=(1, 3, 16, 16)).astype(np.float32)}) for i in range(count)]


def statistics(model: Model):
    return calibrate(model, {"data": [sample.inputs["data"] for sample in samples()]}, {})


def measured(network: Network):
    """The same statistics for any precision."""
    found = statistics(network.graph.model)
    return lambda precision: found


def test_fully_connected_layers_are_found_as_convolutions_too():
    network = divide(descriptor(), Division("hi3516dv300"))
    assert [layer.name for layer in fully_connected(network)] == ["comp_fc", "pca"]


def test_the_usual_choices():
    network = divide(descriptor(), Division("hi3516dv300", compile_mode=2))
    rows = precision_table(network, measured(network), FORMATS, samples())
    assert [row["choice"] for row in rows] == ["no_hp", "lastfc_hp", "fullfc_hp", "firstconv_hp", "all"]
    every = ["conv1", "conv2", "comp_fc", "pca"]
    assert [row["layers"] for row in rows] == [[], ["pca"], ["comp_fc", "pca"], ["conv1"], every]
    noise = [row["sqnr_db"] for row in rows]
    assert noise[4] > noise[0] + 15  # all in 16 bits is another class
    weights = {"conv1": 8 * 3 * 9, "conv2": 16 * 8 * 9, "comp_fc": 32 * 16 * 16, "pca": 8 * 32}
    plain = sum(weights.values())
    assert [row["weight_bytes"] for row in rows] == [
        plain,
        plain + weights["pca"],
        plain + weights["pca"] + weights["comp_fc"],
        plain + weights["conv1"],
        2 * plain,
    ]
    # 8 x 8 and 4 x 4 positions of the convolutions, one of each fully connected layer.
    macs = 64 * weights["conv1"] + 16 * weights["conv2"] + weights["comp_fc"] + weights["pca"]
    assert [row["macs"] for row in rows] == [macs] * 5
    in_16_bits = [0, weights["pca"], weights["pca"] + weights["comp_fc"], 64 * weights["conv1"], macs]
    assert [row["macs_16_bit"] for row in rows] == in_16_bits
    inputs = [3 * 256, 8 * 64, 16 * 16, 32]
    assert rows[0]["input_bytes"] == sum(inputs)
    assert rows[1]["input_bytes"] == sum(inputs) + inputs[3]


def test_another_choice_of_the_build_has_a_row_of_its_own():
    network = divide(descriptor(), Division("hi3516dv300", compile_mode=2))
    given = network, measured(network), FORMATS, samples()
    own = precision_table(*given, built=frozenset({"conv2"}))
    assert [(row["choice"], row["layers"]) for row in own[5:]] == [("as_built", ["conv2"])]
    assert len(precision_table(*given, built=frozenset({"pca"}))) == 5


def lowered(model: Model, compile_mode: int) -> NnieLowered:
    return NnieLowered.of(model, Division("hi3516cv500", compile_mode=compile_mode))


def pixels_first() -> Model:
    """Raw pixels around 200, which a layer of its own takes off; 8 bits read such pixels in steps of 8."""
    net = Net(3)
    mean, scale = (net.constant(f"of_{value}", np.full((1, 1, 1, 1), value)) for value in (200, 0.05))
    x = net.node("Mul", [net.node("Sub", [net.input("data", 1, 16, 16), mean], "center"), scale], "scale")
    x = net.node("Relu", [net.conv(x, (1, 8), "conv1", strides=[2, 2])], "relu1")
    x = net.node("Relu", [net.conv(x, (8, 8), "conv2", strides=[2, 2])], "relu2")
    return net.model(net.fc(net.node("Flatten", [x], "flat"), (128, 8), "pca"))


def pixel_samples() -> list[Sample]:
    random = np.random.default_rng(1)
    return [Sample(f"{i}", {"data": random.integers(180, 221, (1, 1, 16, 16)).astype(np.float32)}) for i in range(4)]


def test_layers_without_weights_are_candidates_and_may_matter_most():
    model, given = pixels_first(), pixel_samples()
    found = calibrate(model, {"data": [sample.inputs["data"] for sample in given]}, {})
    form = {"data": Fixed(8, 0, signed=False)}
    divided = lowered(model, 2)
    diagnosis = NnieDiagnosis(model, divided, found, 2, form)
    assert [layer.name for layer in diagnosis.layers] == ["center", "scale", "conv1", "conv2", "pca"]
    assert [(layer.macs, layer.weight_values) for layer in diagnosis.layers[:3]] == [(0, 0), (0, 0), (64 * 72, 72)]

    network = divided.network
    assert [layer.name for layer in first_convolutions(network)] == ["center", "scale", "conv1"]
    rows = precision_table(network, lambda precision: found, form, given)
    noise = {row["choice"]: row["sqnr_db"] for row in rows}
    # A code of 16 steps an octave has 8 pixels a step from 128 on; they vary by 41.
    assert noise["no_hp"] < 15
    assert noise["firstconv_hp"] > noise["no_hp"] + 10 > noise["lastfc_hp"]
    line = better_choice(rows, frozenset()) or ""
    assert "hp: [center, scale, conv1]" in line
    assert better_choice(rows, frozenset(rows[-1]["layers"])) is None  # a build with all in 16 bits needs no advice


def test_no_table_without_a_fully_connected_layer_or_samples():
    net = Net()
    network = divide(net.model(net.conv(net.input("data", 3, 16, 16), (3, 4), "conv")), Division("hi3516cv500"))
    assert precision_table(network, measured(network), FORMATS, samples()) == []
    with_fc = divide(descriptor(), Division("hi3516cv500"))
    assert precision_table(with_fc, measured(with_fc), FORMATS, []) == []


def test_the_suggested_default():
    network = divide(descriptor(), Division("hi3516cv500"))
    assert "'pca'" in (suggestion(network, 0) or "")
    assert suggestion(network, 1) is None
    net = Net(2)
    x = net.conv(net.input("data", 3, 16, 16), (3, 8), "conv")
    fc = net.tag(net.fc(net.node("Flatten", [x], "flat"), (2048, 8), "pca"), hp=True)
    assert suggestion(divide(net.model(fc), Division("hi3516cv500", compile_mode=2)), 2) is None


@pytest.mark.parametrize("mode", [0, 1])
def test_nothing_to_choose_in_other_modes(mode: int):
    model = descriptor()
    with pytest.raises(RecipeError, match="fixes all of them"):
        NnieDiagnosis(model, lowered(model, mode), statistics(model), mode, FORMATS)


def test_the_search_finds_the_smallest_set_that_passes():
    """Held against every set of layers, tried one by one."""
    from itertools import combinations

    model = descriptor()
    diagnosis = NnieDiagnosis(model, lowered(model, 2), statistics(model), 2, FORMATS)
    names = [candidate.name for candidate in diagnosis.candidates]
    assert names == ["conv1", "conv2", "comp_fc", "pca"]
    given = samples()
    reference = diagnosis.reference(given)
    measured = {
        frozenset(chosen): diagnosis.distance(frozenset(chosen), given, reference).sqnr_db
        for count in range(5)
        for chosen in combinations(names, count)
    }
    gate = sorted(measured.values())[10]  # five of the sixteen sets at least this good
    measure = measurer(
        diagnosis, {"given": given}, lambda name, d, pairs: "" if d.sqnr_db >= gate else f"{d.sqnr_db:.1f} dB"
    )
    result = search(diagnosis.candidates, measure)
    least = min(len(chosen) for chosen, sqnr in measured.items() if sqnr >= gate)
    assert result.chosen is not None
    assert len(result.chosen) == least
    assert measured[frozenset(result.chosen)] >= gate
    assert result.certificate == "minimum"
    bits = {
        op.name: op.read_as.bits
        for op in diagnosis.program(frozenset(result.chosen)).ops
        if isinstance(op, NnieWeighted)
    }
    assert {name for name, width in bits.items() if width == 16} == set(result.chosen)
