"""Equalised channels: the float network stays, GFPQ's errors fall, and what cannot be scaled is left alone."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from nnie_networks import Net

from nnkit.calibrate import calibrate
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Float
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.corrections.equalize import EQUALIZED, channel_peaks, equalize, pairs_of, phase_factors
from nnkit_nnie.corrections.weights_edit import WeightsEdit
from nnkit_nnie.gfpq.number_format import Gfpq
from nnkit_nnie.gfpq.quantize import Precision, to_program
from nnkit_nnie.limits.context import Division
from nnkit_nnie.segments import divide

DIVISION = Division("hi3516cv500")


def inputs(count: int = 3) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    return [{"data": random.normal(size=(1, 3, 16, 16)).astype(np.float32)} for _ in range(count)]


def mobile() -> Model:
    """Depthwise and dense convolutions with every activation that scales pass, a pool, two readers of one value."""
    net = Net(7)
    x = net.node("Relu", [net.conv(net.input("data", 3, 16, 16), (3, 8), "first")], "first_relu")
    x = net.conv(x, (8, 8), "dw", group=8)
    x = net.node("LeakyRelu", [x], "leaky", alpha=0.1)
    x = net.conv(x, (8, 16), "pw", kernel=1)
    x = net.node("PRelu", [x, net.constant("slopes", np.linspace(0.1, 0.4, 16).reshape(16, 1, 1))], "prelu")
    x = net.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    one, other = net.conv(x, (16, 4), "one"), net.conv(x, (16, 4), "other", kernel=1)
    return net.model(net.node("Concat", [one, other], "cat", axis=1))


def equalized(model: Model, bits_mode: int = 0) -> tuple[Model, dict[str, np.ndarray]]:
    network = divide(model, DIVISION)
    edit = WeightsEdit(model)
    read = [pair.values[-1] for pair in pairs_of(network)]
    peaks = channel_peaks(model, read, inputs())
    factors = equalize(network, edit, Precision(bits_mode, frozenset()), peaks)
    return edit.model(), factors


def sqnr_db(model: Model, mode: int = 0) -> float:
    """Of the simulated network to the float one, on inputs that nothing was measured on."""
    statistics = calibrate(model, {"data": [each["data"] for each in inputs(6)]}, {})
    program = to_program(
        divide(model, DIVISION), statistics, Precision(mode, frozenset()), name="t", inputs={"data": Float(32)}
    )
    session, noise, signal = FloatSession(model), 0.0, 0.0
    (name,) = program.outputs
    for given in inputs(9)[6:]:
        expected = session.run(given)[name].ravel()
        stored = simulate(program, quantized_inputs(program, Sample("s", given)))[name]
        noise += float(np.square(stored.ravel() / 4096.0 - expected).sum())
        signal += float(np.square(expected).sum())
    return 10.0 * float(np.log10(signal / noise))


def test_the_float_network_stays() -> None:
    model = mobile()
    after, factors = equalized(model)
    scaled = ["first", "first_relu", "dw", "leaky", "pw", "prelu", "pool"]
    assert list(factors) == scaled
    before, now = FloatSession(model, fetch=["cat", "prelu"]), FloatSession(after, fetch=["cat", "prelu" + EQUALIZED])
    for given in inputs():
        one, two = before.run(given), now.run(given)
        np.testing.assert_allclose(two["cat"], one["cat"], rtol=1e-4, atol=1e-5)
        factor = factors["prelu"].reshape(1, -1, 1, 1)
        np.testing.assert_allclose(two["prelu" + EQUALIZED], one["prelu"] * factor, rtol=1e-4, atol=1e-5)
    assert [layer.name for layer in divide(after, DIVISION).layers] == [
        n.name for n in divide(model, DIVISION).layers
    ]
    assert len({float(f) for f in factors["leaky"]}) > 1


def test_what_cannot_be_scaled_is_left_alone() -> None:
    """Behind a sigmoid; read by an addition; an output; weights that two layers share; a marked top."""
    net = Net(1)
    data = net.input("data", 3, 16, 16)
    bounded = net.conv(net.node("Sigmoid", [net.conv(data, (3, 4), "a")], "sig"), (4, 4), "b")
    summed = net.node("Add", [bounded, net.conv(data, (3, 4), "c")], "sum")
    shown = net.conv(summed, (4, 4), "shown_report")
    last = net.conv(net.conv(shown, (4, 4), "given"), (4, 2), "last")
    model = net.model(last, "given")
    assert pairs_of(divide(model, DIVISION)) == ()
    net = Net(1)
    weights, x = net.weights("shared", 3, 3, 1, 1), net.input("data", 3, 16, 16)
    for index in range(3):
        x = net.node("Conv", [x, weights], f"conv{index}", kernel_shape=[1, 1])
    after, factors = equalized(net.model(x))
    assert factors == {}
    assert after.proto().graph.node[0].output[0] == "conv0"


@pytest.mark.parametrize("groups", [1, 6])
def test_phases_have_the_least_error_of_all_that_are_tried(groups: int) -> None:
    """By the format itself, row by row; the codes of a shifted row are those of the row in another place."""
    weight = np.random.default_rng(2).normal(size=(6, 1, 3, 3)) * (
        1.0 if groups == 1 else np.arange(1, 7)[:, None, None, None]
    )
    chosen = phase_factors(weight, groups, 8)

    def error(row: int, factor: float) -> float:
        largest = np.abs(weight[row]).max() * factor if groups == 6 else np.abs(weight).max()
        back = Gfpq.for_magnitude(8, float(largest)).through(weight[row] * factor) / factor
        return float(np.square(back - weight[row]).sum())

    for row in range(6):
        tried = [2.0 ** (step / 32 / 16) for step in range(32)]
        if groups == 1:
            tried = [f for f in tried if np.abs(weight[row]).max() * f <= np.abs(weight).max()] or [1.0]
        assert error(row, float(chosen[row])) <= min(error(row, f) for f in tried) * (1.0 + 1e-6)
    assert np.all((chosen >= 1.0) & (chosen < 2.0 ** (1 / 16)))
    assert np.all(phase_factors(np.ones((4, 65, 1, 1)), 1, 8) == 1.0)  # rows of many weights
    assert np.all(phase_factors(np.zeros((4, 1, 3, 3)), 4, 8) == 1.0)


def test_it_helps_depthwise_layers() -> None:
    model = mobile()
    after, _ = equalized(model)
    assert sqnr_db(after) > sqnr_db(model) + 0.5


def test_it_widens_narrow_channels() -> None:
    """A channel 2^-9 as wide as the widest would be read as zero, and the next layer makes it as wide again."""
    net = Net(3)
    sizes = np.asarray([1.0, 2.0**-9, 0.5, 2.0**-10]).reshape(4, 1, 1, 1)
    random = np.random.default_rng(5)
    first = net.constant("w1", random.normal(size=(4, 3, 3, 3)) * sizes)
    second = net.constant("w2", random.normal(size=(4, 4, 3, 3)) / sizes.reshape(1, 4, 1, 1))
    x = net.node("Conv", [net.input("data", 3, 16, 16), first], "one", kernel_shape=[3, 3], pads=[1] * 4)
    x = net.node("Conv", [net.node("Relu", [x], "relu"), second], "two", kernel_shape=[3, 3], pads=[1] * 4)
    model = net.model(x)
    after, factors = equalized(model)
    steps = np.log2(factors["relu"]) * 16
    assert np.all(steps[[1, 3]] > 16 * 3)
    assert sqnr_db(after) > sqnr_db(model) + 10
    session, again = FloatSession(model), FloatSession(after)
    np.testing.assert_allclose(again.run(inputs()[0])["two"], session.run(inputs()[0])["two"], rtol=1e-3, atol=1e-4)


def test_a_bias_that_is_not_there_is_added_and_names_stay() -> None:
    net = Net(1)
    net.node("Conv", [net.input("data", 3, 16, 16), net.weights("w", 2, 3, 1, 1)], "conv", kernel_shape=[1, 1])
    edit = WeightsEdit(net.model("conv"))
    assert not edit.has("conv", 2)
    edit.add_bias("conv", np.asarray([1.0, -2.0]))
    assert edit.owns("conv", 2)
    onnx.checker.check_model(edit.model().proto())
    given = inputs(1)[0]
    plain, biased = FloatSession(net.model("conv")).run(given), FloatSession(edit.model()).run(given)
    np.testing.assert_allclose(
        biased["conv"] - plain["conv"], np.broadcast_to([[[1.0]], [[-2.0]]], (2, 16, 16))[None], atol=1e-5
    )
