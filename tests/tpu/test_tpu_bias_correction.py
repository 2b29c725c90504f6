"""Corrected biases against ONNX Runtime: nearer to the float network, or undone."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate.run import calibrate
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import import_onnx
from nnkit.program import Program
from nnkit.program.inputs import quantized_inputs
from nnkit.quantize.bias_correction import BIAS_CORRECTION
from nnkit.quantize.judge import program_sqnr_db
from nnkit.recipe.sections import Calibration
from nnkit.rewrite import RewriteLog
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit.target import Quantization
from nnkit_tpu.bias_correction import input_means, with_corrected_biases
from nnkit_tpu.chip_forms import for_chip
from nnkit_tpu.lowering import lower
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuConv
from nnkit_tpu.quantize import Precision, to_program
from nnkit_tpu.target import TpuTarget

_SHAPE = (1, 16, 12, 12)


@pytest.fixture
def network(tmp_path: Path) -> Model:
    """Three convolutions, one grouped and one without bias, with rectifiers between them; weights are seeded."""
    random = np.random.default_rng(3)
    shapes = {"w1": (32, 16, 3, 3), "w2": (32, 16, 3, 3), "w3": (24, 32, 1, 1)}
    weights = {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    weights["b1"] = random.normal(0, 0.5, 32).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], strides=[2, 2], group=2),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, _SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    return import_onnx(tmp_path / "net.onnx").model


def _samples(seed: int, count: int, centre: float) -> list[Sample]:
    random = np.random.default_rng(seed)
    return [Sample("made", {"x": random.normal(centre, 1, _SHAPE).astype(np.float32)}) for _ in range(count)]


def _program(model: Model, samples: list[Sample], chip: str, *corrections: str, asked: bool = True) -> Program:
    observed = calibrate(model, {"x": [sample.inputs["x"] for sample in samples]}, {})
    settings = Calibration.model_validate({"corrections": list(corrections) if asked else None})
    wanted = Quantization("net", observed, settings, {}, lambda count: samples[:count])
    target, options = TpuTarget(), TpuOptions.model_validate({"chip": chip})
    return target.quantize(target.lower(model, RewriteLog(), options), wanted, options)


def _shifts(model: Model, program: Program, samples: list[Sample]) -> np.ndarray:
    """[C]: by how much the program's output is off ONNX Runtime's on average."""
    session, (name,) = FloatSession(model), program.outputs
    found = []
    for sample in samples:
        stored = simulate(program, quantized_inputs(program, sample))[name]
        real = np.asarray(program.tensors[name].format.dequantize(stored))
        found.append(real.reshape(real.shape[-3], -1) - session.run(sample.inputs)[name].reshape(real.shape[-3], -1))
    return np.mean(found, axis=(0, 2))


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv181x"])
def test_corrected_biases_bring_unseen_outputs_nearer_to_onnx_runtime(network: Model, chip: str) -> None:
    seen, unseen = _samples(1, 16, 3.0), _samples(2, 16, 3.0)
    plain, better = (_program(network, seen, chip, *names) for names in ((), (BIAS_CORRECTION,)))
    assert better.notes[-1].startswith("bias correction kept: ")
    assert program_sqnr_db(network, better, unseen) > program_sqnr_db(network, plain, unseen)
    before, after = (_shifts(network, each, unseen) for each in (plain, better))
    assert np.square(after).sum() < 0.3 * np.square(before).sum()


def test_a_correction_that_harms_is_undone(network: Model) -> None:
    seen = _samples(1, 16, 6.0)
    seen[::4] = _samples(2, 4, -0.5)  # every fourth one judges
    plain, kept = (_program(network, seen, "bm1684x", *names) for names in ((), (BIAS_CORRECTION,)))
    assert kept.notes[-1].startswith("bias correction undone: ")
    layers = [[op for op in each.ops if isinstance(op, TpuConv)] for each in (plain, kept)]
    for before, after in zip(*layers, strict=True):
        assert before.bias is after.bias or np.array_equal(before.bias, after.bias)


@pytest.mark.parametrize(
    ("images", "centres", "kept"),
    [
        pytest.param(16, (3.0,), True, id="clear"),
        pytest.param(16, (3.0, 3.0, 3.0, -3.0), False, id="may be chance"),
        pytest.param(4, (3.0, 3.0, 3.0, -3.0), True, id="too few to tell"),
    ],
)
def test_what_nobody_asked_for_is_judged_by_its_gain_on_the_mean_image(
    network: Model, images: int, centres: tuple[float, ...], kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each image judges once; gains and their standard error by hand, from outputs beside ONNX Runtime's."""
    monkeypatch.setattr("nnkit_tpu.weight_rounding.rounds_weights", lambda quantization: False)
    random = np.random.default_rng(1)
    drawn = [random.normal(centres[index % len(centres)], 1, _SHAPE).astype(np.float32) for index in range(images)]
    samples = [Sample("made", {"x": pixels}) for pixels in drawn]
    plain = _program(network, samples, "bm1684x")
    graph = for_chip(lower(network, "net", "bm1684x"), "bm1684x", "INT8")
    ranges = calibrate(network, {"x": [sample.inputs["x"] for sample in samples]}, {}).ranges
    gains = []
    for turn in range(4):
        means = input_means(network, graph, [each for at, each in enumerate(samples) if at % 4 != turn])
        trial = to_program(with_corrected_biases(graph, plain, means), ranges, Precision("bm1684x", "INT8"))
        gains += [_sqnr_db(network, trial, each) - _sqnr_db(network, plain, each) for each in samples[turn::4]]
    mean, error = statistics.mean(gains), statistics.stdev(gains) / math.sqrt(images)
    assert mean > 0.1
    assert (mean > 2.0 * error) == (kept and images >= 16)
    note = _program(network, samples, "bm1684x", asked=False).notes[-1]
    assert note.startswith(f"bias correction {'kept' if kept else 'undone'}: ")
    assert note.endswith(f"{mean:+.2f} dB on the mean input, with a standard error of {error:.2f}")


def _sqnr_db(model: Model, program: Program, sample: Sample) -> float:
    (name,) = program.outputs
    stored = simulate(program, quantized_inputs(program, sample))[name]
    real = np.asarray(program.tensors[name].format.dequantize(stored)).ravel()
    expected = FloatSession(model).run(sample.inputs)[name].ravel()
    return float(10.0 * np.log10(np.square(expected).sum() / np.square(real - expected).sum()))


def test_too_few_images_are_told(network: Model) -> None:
    with pytest.raises(RecipeError, match="there are 3"):
        _program(network, _samples(1, 3, 0.0), "bm1684x", BIAS_CORRECTION)


def test_means_are_those_of_what_the_convolutions_read(network: Model) -> None:
    samples = _samples(1, 5, 0.5)
    means = input_means(network, lower(network, "net"), samples)
    pixels = np.concatenate([sample.inputs["x"] for sample in samples])
    np.testing.assert_allclose(means["x"], pixels.mean(axis=(0, 2, 3)), rtol=1e-5)
    assert set(means) == {"x", "r1", "r2"}
    assert (means["r1"] >= 0).all()
