"""The functional simulation: against a plain imitation of a network, and at the accuracy that is known of GFPQ."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from nnie_networks import OWN, Net

from nnkit.calibrate import calibrate
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.preprocess import Preprocess, load_input
from nnkit.program import Float, Program
from nnkit.program.inputs import quantized_inputs
from nnkit.recipe import Preprocess as WrittenPreprocess
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.gfpq.ops import STORED, CpuLayer, NnieLayer, NnieWeighted
from nnkit_nnie.gfpq.quantize import PIXELS, Precision, to_program
from nnkit_nnie.limits.context import Division
from nnkit_nnie.segments import divide, divided

CHIP = "hi3516cv500"
FLOAT = Float(32)


def built(model: Model, samples: list[dict], mode: int, form=FLOAT, hp: frozenset[str] | None = None) -> Program:
    network = divided(model, Division(CHIP, compile_mode=mode)).network
    sources = {spec.name: [sample[spec.name] for sample in samples] for spec in model.inputs}
    statistics = calibrate(model, sources, {})
    precision = Precision.of(network, mode) if hp is None else Precision(mode, hp)
    return to_program(network, statistics, precision, name="t", inputs=dict.fromkeys(sources, form))


def outputs(program: Program, inputs: dict) -> dict[str, np.ndarray]:
    stored = simulate(program, quantized_inputs(program, Sample("s", inputs)))
    return {name: program.tensors[name].format.dequantize(stored[name]) for name in program.tensors}


def scale(largest: float, bits: int) -> int:
    """z of a range."""
    steps, top = {8: (16, 127), 16: (128, 1407)}[bits]
    return math.floor(steps * math.log2(largest)) - top


def gfpq(x: np.ndarray, largest: float, bits: int) -> np.ndarray:
    """The format by its definition, value by value in plain Python."""
    steps, top = {8: (16, 127), 16: (128, 1407)}[bits]
    z = scale(largest, bits)

    def one(value: float) -> float:
        if value >= 2.0 ** ((z - steps) / steps):
            return 2.0 ** ((min(max(round(steps * math.log2(value) - z), 0), top) + z) / steps)
        if value < -(2.0 ** ((z + 1 - steps) / steps)):
            return -(2.0 ** ((min(max(round(steps * math.log2(-value) - z), 1), top) + z) / steps))
        return 0.0

    return np.asarray([one(float(value)) for value in x.ravel()]).reshape(x.shape)


def small() -> Model:
    net = Net(5)
    x = net.input("data", 2, 8, 8)
    x = net.node("Relu", [net.conv(x, (2, 3), "conv", kernel=3, pad=0)], "relu")
    x = net.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    return net.model(net.fc(net.node("Flatten", [x], "flat"), (27, 4), "fc"))


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_a_network_imitated_in_plain_loops(mode: int):
    """Convolution, ReLU, pooling and a fully connected layer, each written out from the description."""
    model = small()
    random = np.random.default_rng(0)
    samples = [{"data": random.normal(size=(1, 2, 8, 8)).astype(np.float32)} for _ in range(3)]
    program = built(model, samples, mode, hp=frozenset({"fc"}))
    bits = {0: (8, 8, 8), 1: (16, 16, 16), 2: (8, 8, 16)}[mode]
    session = FloatSession(model, fetch=["data", "relu", "pool"])
    seen = [session.run(sample) for sample in samples]
    largest = {name: max(float(np.abs(s[name]).max()) for s in seen) for name in ("data", "relu", "pool")}
    constants = FloatSession(model, fetch=["conv.w", "conv.b", "fc.w", "fc.b"]).run(samples[0])

    def stored(x: np.ndarray) -> np.ndarray:
        return np.floor(x * 4096.0 + 0.5) / 4096.0

    def dense(x: np.ndarray, read: float, name: str, bits: int) -> np.ndarray:
        """Outputs of one position: products in units of both scales, integer bias and multiplier, rounded down."""
        weights, bias = constants[f"{name}.w"], constants[f"{name}.b"]
        steps = {8: 16, 16: 128}[bits]
        s = -(scale(float(np.abs(weights).max()), bits) + scale(read, bits))
        unit = 2.0 ** (s / steps)
        quantised = gfpq(weights, float(np.abs(weights).max()), bits).reshape(len(weights), -1)
        sums = [
            round(math.fsum(row * x.ravel()) * unit) + round(float(b) * unit)
            for row, b in zip(quantised, bias, strict=True)
        ]
        return np.asarray([(each * round(2.0 ** (42 - s / steps)) >> 30) / 4096.0 for each in sums])

    x = gfpq(samples[0]["data"][0], largest["data"], bits[0])
    conv = np.empty((3, 6, 6))
    for y, c in np.ndindex(6, 6):
        conv[:, y, c] = np.maximum(0.0, dense(x[:, y : y + 3, c : c + 3], largest["data"], "conv", bits[0]))
    read = gfpq(conv, largest["relu"], bits[1])
    pool = stored(read.reshape(3, 3, 2, 3, 2).max(axis=(2, 4)))
    expected = dense(gfpq(pool, largest["pool"], bits[2]), largest["pool"], "fc", bits[2])

    got = outputs(program, samples[0])
    np.testing.assert_array_equal(got["relu"], conv)
    # The pool is computed in float32, which may move a value by one unit of S20.12.
    np.testing.assert_allclose(got["pool"], pool, atol=2.0**-12)
    np.testing.assert_allclose(got["fc"], expected, atol=2.0**-11)


def test_modes_choose_bits_by_layer():
    model = small()
    samples = [{"data": np.ones((1, 2, 8, 8), np.float32)}]

    def bits(mode: int, hp: frozenset[str]) -> list[int]:
        ops = built(model, samples, mode, hp=hp).ops
        return [op.read_as.bits if isinstance(op, NnieWeighted) else op.read_as[0].bits for op in ops]

    assert bits(0, frozenset()) == [8, 8, 8]
    assert bits(1, frozenset()) == [16, 16, 16]
    assert bits(2, frozenset({"fc"})) == [8, 8, 16]


def test_stored_formats():
    program = built(small(), [{"data": np.full((1, 2, 8, 8), 7.0, np.float32)}], 0, form=PIXELS)
    assert program.tensors["data"].format == PIXELS
    assert (program.tensors["data"].low, program.tensors["data"].high) == (0, 255)
    assert all(program.tensors[op.output].format == STORED for op in program.ops)
    assert STORED.dtype == np.dtype("i4")


def test_layers_that_place_values_do_not_round_again():
    """A Concat passes on what it is given, also where the two parts have very different ranges."""
    net = Net(1)
    x = net.input("data", 2, 4, 4)
    parts = [net.conv(x, (2, 2), name, kernel=1) for name in ("a", "b")]
    program = built(
        net.model(net.node("Concat", parts, "cat", axis=1)), [{"data": np.ones((1, 2, 4, 4), np.float32)}], 0
    )
    op = next(op for op in program.ops if isinstance(op, NnieLayer))
    assert op.read_as == (None, None)
    random = np.random.default_rng(2)
    got = outputs(program, {"data": random.normal(size=(1, 2, 4, 4)).astype(np.float32)})
    np.testing.assert_array_equal(got["cat"], np.concatenate([got["a"], got["b"]]))


def test_cpu_layers_are_float():
    net = Net(2)
    x = net.conv(net.input("data", 3, 8, 8), (3, 4), "conv")
    program = built(
        net.model(net.tag(net.node("Exp", [x], "exp"), cpu=True)), [{"data": np.ones((1, 3, 8, 8), np.float32)}], 0
    )
    op = program.ops[-1]
    assert isinstance(op, CpuLayer)
    assert program.tensors["exp"].format == Float(32)
    got = outputs(program, {"data": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)})
    np.testing.assert_allclose(got["exp"], np.exp(got["conv"].astype(np.float32)), rtol=1e-6)


def test_what_the_cpu_hands_to_the_nnie_is_s20_12():
    """Values below half a unit of S20.12 are zero when the NNIE reads them; the CPU's own output keeps them."""
    net = Net()
    x = net.conv(net.input("data", 1, 2, 2), (1, 1), "conv", kernel=1)
    x = net.node("Mul", [net.clip(x, "clip"), net.constant("tiny", np.full((1, 1, 2, 2), 1e-5))], "mul")
    weight = net.constant("w", np.full((1, 1, 1, 1), 1.0))
    model = net.model(net.node("Conv", [x, weight], "head", kernel_shape=[1, 1]))
    network = divide(model, Division(CHIP, custom=("mul",)))
    sample = {"data": np.full((1, 1, 2, 2), 4.0, np.float32)}
    statistics = calibrate(model, {"data": [sample["data"]]}, {})
    program = to_program(network, statistics, Precision(1, frozenset()), name="t", inputs={"data": FLOAT})
    got = outputs(program, sample)
    assert 0.0 < np.abs(got["mul"]).max() < 2.0**-13
    assert not got["head"].any()


def test_saturation_of_s20_12():
    """A sum beyond 2^19 stays there."""
    net = Net()
    weight = net.constant("w", np.full((1, 1, 1, 1), 3e4))
    x = net.node("Conv", [net.input("data", 1, 2, 2), weight], "conv", kernel_shape=[1, 1])
    program = built(net.model(x), [{"data": np.full((1, 1, 2, 2), 100.0, np.float32)}], 1)
    got = outputs(program, {"data": np.full((1, 1, 2, 2), 100.0, np.float32)})
    assert np.all(got["conv"] == STORED.qmax / 4096.0)


def test_regions_take_the_place_of_the_batch():
    """Layers after ROIPooling work on one feature map a region."""
    net = Net(3)
    x = net.conv(net.input("data", 3, 16, 16), (3, 4), "conv")
    regions = net.constant("regions", [[0, 0, 0, 7, 7], [0, 4, 4, 15, 15], [0, 0, 8, 15, 15]])
    pooled = net.node("ROIPooling", [x, regions], "pooled", domain=OWN, pooled_h=2, pooled_w=2)
    model = net.model(net.fc(net.node("Flatten", [pooled], "flat"), (16, 5), "fc"))
    sample = {"data": np.random.default_rng(0).normal(size=(1, 3, 16, 16)).astype(np.float32)}
    program = built(model, [sample], 1)
    assert program.tensors["fc"].shape == (3, 5)
    # A product of two 16-bit codes is off by at most 2 * (2^(1/256) - 1), saturated ones by twice that: 1.1 %. The
    # convolution before adds as much again; signs differ, so that far less is left of a sum.
    for got, expected in zip(outputs(program, sample)["fc"], FloatSession(model).run(sample)["fc"], strict=True):
        assert cosine(got, expected) > 0.9999


REAL = {
    "squeezenet": (
        "squeezenet_v10_dc/SqueezeNet_deploy.prototxt",
        "squeezenet_v10_dc/SqueezeNet_v1.0_dc.caffemodel",
        {"color": "bgr", "mean": [104.0, 117.0, 123.0], "resize": {"size": [227, 227]}},
        "photos/*",
    )
}


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_accuracy_is_of_the_kind_that_is_known(shared_dir: Path):
    """Published for a face network: mean cosine 0.9940 with 8 bits and 0.9999 with 16; SqueezeNet is alike."""
    from nnkit.importers.caffe_importer import import_caffe

    prototxt, weights, given, images = REAL["squeezenet"]
    model = import_caffe(shared_dir / "models" / prototxt, shared_dir / "models" / weights).model
    preprocess = Preprocess.from_recipe(WrittenPreprocess(**given), (1, 3, 227, 227))
    files = sorted((shared_dir / "images").glob(images))[:12]
    statistics = calibrate(model, {"data": files[:8]}, {"data": preprocess})
    network = divide(model, Division(CHIP))
    session = FloatSession(model)
    means = {}
    for mode in (0, 1):
        program = to_program(network, statistics, Precision.of(network, mode), name="t", inputs={"data": Float(32)})
        found = []
        for file in files[8:]:
            sample = {"data": load_input(file, preprocess, (1, 3, 227, 227))}
            found.append(cosine(outputs(program, sample)["pool_final"], session.run(sample)["pool_final"]))
        means[mode] = float(np.mean(found))
    assert 0.99 < means[0] < 0.9995  # 8 bits: coarse, and visibly so
    assert 0.9999 < means[1] < 1.0
