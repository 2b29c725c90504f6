"""Trials of `hp: auto`: the same numbers as building and simulating each Program, for less work."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from nnie_networks import Net

from nnkit.calibrate import calibrate
from nnkit.graph import Model
from nnkit.mixed_precision.diagnosis import Diagnosis, measurer
from nnkit.mixed_precision.search import search
from nnkit.program import Float
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.gfpq.quantize import Precision, to_program
from nnkit_nnie.limits.context import Division
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.precision import NnieDiagnosis
from nnkit_nnie.segments import divide
from nnkit_nnie.trials import Choices, TrialRunner

MIXED = Division("hi3516dv300", compile_mode=2)
FORMATS = {"data": Float(32)}
NAMES = ("stem", "left", "right", "fc")


def branched() -> Model:
    """Two branches that meet, a CPU layer in one of them, a second output, and a layer tagged by hand."""
    net = Net(2)
    x = net.node("Relu", [net.conv(net.input("data", 3, 8, 8), (3, 4), "stem")], "relu")
    left = net.clip(net.conv(x, (4, 4), "left"), "left_clip")
    right = net.tag(net.conv(net.conv(x, (4, 4), "right"), (4, 4), "tagged"), hp=True)
    y = net.node("Concat", [left, right], "joined", axis=1)
    pooled = net.node("Flatten", [net.node("GlobalAveragePool", [y], "pool")], "flat")
    return net.model(net.fc(pooled, (8, 3), "fc"), right)


def samples(count: int = 3) -> list[Sample]:
    random = np.random.default_rng(0)
    return [Sample(f"{i}", {"data": random.normal(size=(1, 3, 8, 8)).astype(np.float32)}) for i in range(count)]


@pytest.fixture
def model() -> Model:
    return branched()


def statistics(model: Model):
    return calibrate(model, {"data": [sample.inputs["data"] for sample in samples()]}, {})


def diagnosed(model: Model) -> NnieDiagnosis:
    return NnieDiagnosis(model, NnieLowered.of(model, MIXED), statistics(model), 2, FORMATS)


def built(model: Model, layers: frozenset[str]):
    """The Program as a build with these tags makes it."""
    precision = Precision(2, layers | {"tagged"})
    return to_program(divide(model, MIXED), statistics(model), precision, name="trial", inputs=FORMATS)


ALL_SETS = [frozenset(part) for size in range(5) for part in combinations(NAMES, size)]


@pytest.mark.parametrize("room_bytes", [1 << 20, 1500, 0])
def test_every_set_gives_what_its_program_gives(model: Model, room_bytes: int):
    none, everything = built(model, frozenset()), built(model, frozenset(NAMES))
    runner = TrialRunner(Choices(none, everything), room_bytes)
    for layers in ALL_SETS:
        program = built(model, layers)
        for sample in samples():
            stored = quantized_inputs(program, sample)
            expected = simulate(program, stored)
            found = runner.run(layers, stored)
            assert found.keys() == set(program.outputs)
            for name, values in found.items():
                np.testing.assert_array_equal(values, expected[name])
                assert values.dtype == expected[name].dtype


def test_only_what_changed_is_computed(model: Model):
    diagnosis = diagnosed(model)
    runner, plain = diagnosis._runner, diagnosis.program(frozenset())
    (sample,) = samples(1)

    def computed(*layers: str) -> int:
        before = runner.computed
        diagnosis.run(plain, frozenset(layers), sample)
        return runner.computed - before

    assert computed() == len(plain.ops)
    assert computed() == 0
    assert computed("fc") == 1
    assert computed("right") == 5  # right, tagged, joined, pool, and fc, which flattens
    assert computed("right", "fc") == 1
    assert computed("stem") == len(plain.ops)


class Plain(NnieDiagnosis):
    """Builds and simulates every trial from scratch."""

    def program(self, layers):
        return self._built(layers)

    run = Diagnosis.run


@pytest.mark.parametrize("gate_db", [35.0, 37.0, 42.0, 80.0])
def test_the_search_finds_what_it_found_without(model: Model, gate_db: float):
    found = []
    for sort in (NnieDiagnosis, Plain):
        diagnosis = sort(model, NnieLowered.of(model, MIXED), statistics(model), 2, FORMATS)
        sets = {"verification": samples()}

        def judge(name, distance, pairs):
            return "" if distance.sqnr_db >= gate_db else "too noisy"

        found.append(search(diagnosis.candidates, measurer(diagnosis, sets, judge)))
    assert found[0] == found[1]
    assert len(found[0].trials) > 1
