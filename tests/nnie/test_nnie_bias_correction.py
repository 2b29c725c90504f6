"""Corrected biases: on the inputs that they are measured on, every layer has the float network's means."""

from __future__ import annotations

import numpy as np
from nnie_networks import Net

from nnkit.calibrate import calibrate
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Float, Program
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.corrections.bias_correction import correct_biases
from nnkit_nnie.corrections.weights_edit import WeightsEdit
from nnkit_nnie.gfpq.quantize import Precision, to_program
from nnkit_nnie.limits.context import Division
from nnkit_nnie.segments import divide


def network() -> Model:
    """A layer without a bias, one without an activation, a fully connected one, and two that share a bias."""
    net = Net(6)
    x = net.node("Relu", [net.conv(net.input("data", 2, 12, 12), (2, 6), "conv")], "relu")
    x = net.node("Conv", [x, net.weights("dw.w", 6, 1, 3, 3)], "dw", kernel_shape=[3, 3], group=6, pads=[1] * 4)
    bias = net.constant("common", np.linspace(-0.2, 0.2, 6))
    for name in ("one", "two"):
        x = net.node("Conv", [x, net.weights(f"{name}.w", 6, 6, 1, 1), bias], name, kernel_shape=[1, 1])
    return net.model(net.fc(net.node("Flatten", [x], "flat"), (6 * 144, 3), "fc"))


def program_of(model: Model, given: list[dict[str, np.ndarray]]) -> Program:
    statistics = calibrate(model, {"data": [each["data"] for each in given]}, {})
    formats = {"data": Float(32)}
    return to_program(
        divide(model, Division("hi3516cv500")), statistics, Precision(0, frozenset()), name="t", inputs=formats
    )


def means(
    model: Model, program: Program, given: list[dict[str, np.ndarray]], name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Of the channels of a value: in float, and simulated."""
    floats, ours = [], []
    session = FloatSession(model, fetch=[name])
    for each in given:
        floats.append(session.run(each)[name][0])
        stored = simulate(program, quantized_inputs(program, Sample("s", each)))[name]
        ours.append(stored.reshape(floats[-1].shape) / 4096.0)
    return tuple(
        np.mean([part.reshape(part.shape[0], -1).mean(axis=1) for part in side], axis=0) for side in (floats, ours)
    )


def test_means_are_the_float_networks() -> None:
    model = network()
    random = np.random.default_rng(0)
    given = [{"data": random.normal(0.3, 1.0, (1, 2, 12, 12)).astype(np.float32)} for _ in range(4)]
    before, edit = program_of(model, given), WeightsEdit(model)
    samples = [Sample(str(index), each) for index, each in enumerate(given)]
    assert (
        correct_biases(divide(model, Division("hi3516cv500")), before, edit, samples) == 3
    )  # not the two that share
    corrected = edit.model()
    after = program_of(corrected, given)
    for name in ("dw", "fc"):
        expected, was = means(model, before, given, name)
        _, now = means(model, after, given, name)
        assert np.abs(was - expected).max() > 2e-3
        assert np.abs(now - expected).max() < 3 / 4096  # ranges of layers behind are calibrated anew
    names = [node.name for node in corrected.proto().graph.node]
    assert names == [node.name for node in model.proto().graph.node]
