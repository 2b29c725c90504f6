"""Layers in 16 bits: the search on a network with one weak layer, and the table of the usual choices."""

from __future__ import annotations

import pytest
from nnie_networks import Net
from nnie_precision_networks import FORMATS, descriptor, lowered, pixel_samples, pixels_first, samples

from nnkit.calibrate import calibrate
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.mixed_precision.diagnosis import measurer
from nnkit.mixed_precision.search import search
from nnkit.program import Fixed
from nnkit_nnie.gfpq.ops import NnieWeighted
from nnkit_nnie.limits.context import Division
from nnkit_nnie.precision import (
    NnieDiagnosis,
    first_convolutions,
    fully_connected,
    suggestion,
)
from nnkit_nnie.segments import divide


def statistics(model: Model):
    return calibrate(model, {"data": [sample.inputs["data"] for sample in samples()]}, {})


def test_fully_connected_layers_are_found_as_convolutions_too():
    network = divide(descriptor(), Division("hi3516dv300"))
    assert [layer.name for layer in fully_connected(network)] == ["comp_fc", "pca"]


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
