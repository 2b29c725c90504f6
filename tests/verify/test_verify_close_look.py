"""Isolated layers and their histograms, against `layer_errors` and numpy; the worst inputs, against all of them."""

from __future__ import annotations

import numpy as np
import pytest
from small_project import make_build, write_project

from nnkit import stages
from nnkit.distance import distance
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.inputs import verification_samples
from nnkit.program.inputs import quantized_inputs
from nnkit.simulate import simulate
from nnkit.verify.close_look import CLOSE_SAMPLES
from nnkit.verify.float_vs_program import compare_with_float
from nnkit.verify.layer_errors import layer_errors
from nnkit.verify.worst import WORST


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory):
    """(restructured network, program, samples, ranges, verdict) of a small network on 18 images."""
    folder = tmp_path_factory.mktemp("close")
    build = make_build(write_project(folder, images=18))
    restructured = stages.restructure(build, stages.import_model(build))
    lowered = stages.lower(build, restructured)
    statistics = stages.calibrate(build, restructured)
    settled = stages.choose_precision(build, restructured, lowered, statistics)
    program = stages.quantize(build, settled, statistics)
    samples = verification_samples(build.recipe, restructured.model)
    verdict = compare_with_float(
        restructured.reference, restructured.model, program, samples, ranges=statistics.ranges
    )
    return restructured.model, program, samples, statistics.ranges, verdict


def test_isolated_layers_are_what_diagnose_measures(compared) -> None:
    model, program, samples, _, verdict = compared
    expected = {e.layer: e.isolated_db for e in layer_errors(model, program, samples[:CLOSE_SAMPLES])}
    assert len(expected) > 10
    for name, value in expected.items():
        if value is not None:
            assert verdict.isolated[name].sqnr_db == pytest.approx(value, rel=1e-12)


def test_histograms_count_every_float_value(compared) -> None:
    model, program, samples, ranges, verdict = compared
    op = program.ops[0]
    session = FloatSession(model, fetch=[op.output])
    values = np.concatenate([session.run(s.inputs)[op.output].ravel() for s in samples[:CLOSE_SAMPLES]])
    counts = verdict.histograms[op.name]
    edges = np.linspace(counts.low, counts.high, len(counts.counts) + 1)
    assert sum(counts.counts) == values.size
    middle = len(counts.counts) // 2
    assert counts.counts[middle] == np.sum((values >= edges[middle]) & (values < edges[middle + 1]))
    seen = ranges[op.output]
    assert counts.high == pytest.approx(1.25 * max(abs(seen.observed_low), abs(seen.observed_high)))


def test_the_worst_inputs_are_the_worst_of_all_in_every_part(compared) -> None:
    model, program, samples, _, verdict = compared
    session = FloatSession(model)
    (output,) = program.outputs
    every = []
    for index, sample in enumerate(samples):
        got = program.tensors[output].format.dequantize(simulate(program, quantized_inputs(program, sample))[output])
        every.append((distance(got, session.run(sample.inputs)[output]).sqnr_db, index))
    assert [error.index for error in verdict.worst] == [index for _, index in sorted(every)[:WORST]]
    first = verdict.worst[0]
    expected = session.run(samples[first.index].inputs)[output].ravel()
    (answer,) = first.answers
    assert [index for index, _ in answer.float_values] == np.argsort(-expected)[:3].tolist()


def test_pictures_are_what_the_network_sees(compared) -> None:
    _, _, samples, _, _ = compared
    picture = samples.picture(3)
    assert picture.shape == (40, 40)
    assert np.array_equal(picture, np.rint(samples[3].inputs["x"][0, 0]).astype(np.uint8))
