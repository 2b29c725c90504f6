"""Additions and concatenations meet in one format; accuracy against ONNX Runtime."""

from __future__ import annotations

import numpy as np
from onnx import helper

from nnkit.distance import distance
from nnkit.program import Add
from nnkit.quantize import FixedPointScheme, quantize
from nnkit.quantize.lowering import lower
from nnkit.simulate import simulate
from tests.quantize.conftest import float_values, make_model, stats_of


def test_concat_and_add_align_formats() -> None:
    rng = np.random.default_rng(5)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="small"),
        helper.make_node("Conv", ["x", "w2"], ["b"], name="large"),
        helper.make_node("Concat", ["a", "b"], ["cat"], name="cat", axis=1),
        helper.make_node("Conv", ["x", "w3"], ["c"], name="third"),
        helper.make_node("Add", ["c", "small"], ["y"], name="sum"),
        helper.make_node("Conv", ["x", "w4"], ["small"], name="fourth"),
    ]
    nodes = [*nodes[:4], nodes[5], nodes[4]]
    constants = {
        "w1": rng.normal(0, 0.01, (2, 3, 1, 1)).astype(np.float32),
        "w2": rng.normal(0, 9, (2, 3, 1, 1)).astype(np.float32),
        "w3": rng.normal(0, 5, (2, 3, 1, 1)).astype(np.float32),
        "w4": rng.normal(0, 0.02, (2, 3, 1, 1)).astype(np.float32),
    }
    model = make_model(nodes, constants, {"x": (1, 3, 5, 5)}, ["cat", "y"])
    feeds = {"x": rng.normal(0, 1, (1, 3, 5, 5)).astype(np.float32)}
    values = float_values(model, feeds)
    program = quantize(lower(model), stats_of(values), FixedPointScheme())
    assert program.tensors["a"].format == program.tensors["b"].format == program.tensors["cat"].format
    add = next(op for op in program.ops if isinstance(op, Add))
    fracs = [program.tensors[name].fixed.frac for name in add.inputs]
    assert fracs[0] + add.shifts[0] == fracs[1] + add.shifts[1] == max(fracs)
    assert fracs[0] != fracs[1]
    stored = simulate(program, {"x": program.tensors["x"].fixed.quantize(feeds["x"][0])})
    for name in ("cat", "y"):
        assert distance(program.tensors[name].fixed.dequantize(stored[name]), values[name]).sqnr_db > 60
