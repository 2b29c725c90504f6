"""The arithmetic that the NNIE was simulated with before its mapper's numbers were known, against ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from nnie_networks import Net
from onnx import numpy_helper

from benchmarks.nnie_layer_scales import one_scale
from nnkit.calibrate import calibrate
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Float
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.gfpq.number_format import Gfpq
from nnkit_nnie.gfpq.ops import NnieWeighted
from nnkit_nnie.gfpq.quantize import Precision, to_program
from nnkit_nnie.limits.context import Division
from nnkit_nnie.segments import divided

STEP = 2.0**-12  # of S20.12


def test_one_scale_and_sums_in_float() -> None:
    """Groups of very different weights, which by one scale are read as zero or coarsely."""
    net = Net(2)
    name = net.conv(net.input("image", 4, 6, 6), (4, 8), "grouped", group=4)
    stored = next(each for each in net.constants if each.name == "grouped.w")
    weight = numpy_helper.to_array(stored) * np.float32(np.repeat([1.0, 0.1, 3.0, 0.004], 2)).reshape(8, 1, 1, 1)
    stored.CopyFrom(numpy_helper.from_array(weight, "grouped.w"))
    model = net.model(name)
    image = np.random.default_rng(0).normal(size=(1, 4, 6, 6)).astype(np.float32)
    network = divided(model, Division("hi3516cv500")).network
    statistics = calibrate(model, {"image": [image]}, {})
    program = to_program(network, statistics, Precision.of(network, 0), name="t", inputs={"image": Float(32)})
    (op,) = program.ops
    assert isinstance(op, NnieWeighted)
    before = replace(program, ops=(one_scale(op, weight.astype(np.float64)),))
    results = [
        simulate(each, quantized_inputs(each, Sample("", {"image": image})))[name] * STEP
        for each in (before, program)
    ]

    one, read = (Gfpq.for_magnitude(8, float(np.abs(values).max())) for values in (weight, image))
    stored.CopyFrom(numpy_helper.from_array(one.through(weight).astype("f4"), "grouped.w"))
    expected = FloatSession(net.model(name)).run({"image": read.through(image).astype("f4")})[name][0]
    np.testing.assert_allclose(results[0], expected, atol=0.51 * STEP)
    assert np.abs(results[1] - expected).max() > 10 * STEP
