"""Channel shuffle and split, as ShuffleNet has them: numbers move as ONNX Runtime moves them, in every arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from nnkit.calibrate import calibrate
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.program import Slice
from nnkit.quantize import FixedPointScheme, quantize
from nnkit.quantize.affine import AffineScheme, outputs_of, quantize_affine
from nnkit.quantize.affine.float_run import all_values
from nnkit.quantize.affine.qdq_export import qdq_model
from nnkit.quantize.lowered import LoweredLayers
from nnkit.quantize.lowering import lower
from nnkit.simulate import simulate
from tests.quantize.conftest import float_values, make_model, stats_of


def _ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def _shuffle() -> Model:
    """[1, 6, 3, 2] shuffled in three groups, then split into 2, 1 and 3 channels; nobody reads the second."""
    nodes = [
        helper.make_node("Reshape", ["x", "groups"], ["five"], name="groups"),
        helper.make_node("Transpose", ["five"], ["swapped"], name="swap", perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["swapped", "back"], ["shuffled"], name="back"),
        helper.make_node("Split", ["shuffled", "sizes"], ["a", "b", "c"], name="split", axis=1),
        helper.make_node("Relu", ["c"], ["y"], name="act"),
        helper.make_node("Slice", ["a", "from", "to", "axes", "steps"], ["z"], name="turned"),
    ]
    constants = {"groups": _ints(1, 3, 2, 3, 2), "back": _ints(1, 6, 3, 2), "sizes": _ints(2, 1, 3)}
    constants |= {"from": _ints(-1), "to": _ints(-100), "axes": _ints(2), "steps": _ints(-1)}
    return make_model(nodes, constants, {"x": (1, 6, 3, 2)}, ["y", "z"])


FEEDS = {"x": np.random.default_rng(4).integers(-120, 121, (1, 6, 3, 2)).astype(np.float32)}


@pytest.mark.parametrize("bits", [8, 16])
def test_fixed_point_moves_the_integers(bits: int) -> None:
    model = _shuffle()
    values = float_values(model, FEEDS)
    program = quantize(lower(model), stats_of(values), FixedPointScheme(bits=bits, headroom=1.0))
    assert [op.name for op in program.ops if isinstance(op, Slice)] == ["split_part0", "split_part2", "turned"]
    stored = simulate(program, {"x": program.tensors["x"].fixed.quantize(FEEDS["x"][0])})
    for name in ("y", "z"):
        np.testing.assert_array_equal(program.tensors[name].fixed.dequantize(stored[name]), values[name][0])


def test_affine_integers_move_as_those_of_the_exported_model() -> None:
    model = _shuffle()
    values = float_values(model, FEEDS)
    stats = calibrate(model, {"x": [FEEDS["x"]]}, {}, method="mse")
    program = quantize_affine(LoweredLayers.of(model), stats, AffineScheme())
    session = onnxruntime.InferenceSession(qdq_model(program).SerializeToString(), providers=["CPUExecutionProvider"])
    outputs = outputs_of(program, FEEDS)
    for name, expected in zip(("y", "z"), session.run(["y", "z"], FEEDS), strict=True):
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-6)
        assert np.abs(outputs[name] - values[name]).max() < program.tensors["x"].scale
    (by_numpy,) = all_values(lower(model), FEEDS)
    for name in ("y", "z"):
        np.testing.assert_array_equal(by_numpy[name], values[name])


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (
            helper.make_node("Transpose", ["x"], ["y"], name="op", perm=[1, 0, 2, 3]),
            "it moves the first axis, that of images",
        ),
        (
            helper.make_node("Split", ["x"], ["y", "z"], name="op", axis=0, num_outputs=2),
            "it takes a part of the first axis",
        ),
        (
            helper.make_node("Slice", ["x", "one", "two", "zero"], ["y"], name="op"),
            "it takes a part of the first axis",
        ),
    ],
)
def test_the_batch_stays(node: Any, reason: str) -> None:
    constants = {"zero": _ints(0), "one": _ints(1), "two": _ints(2)}
    model = make_model([node], constants, {"x": (2, 4, 3, 3)}, list(node.output))
    with pytest.raises(ModelError, match=reason):
        lower(model)
