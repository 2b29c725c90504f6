"""Adaptive rounding for the TPU: nearer to ONNX Runtime, on the compiler's grid, and judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate.run import calibrate
from nnkit.calibrate.stats import MethodTrial
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.importers import import_onnx
from nnkit.program import Program
from nnkit.quantize.judge import Verdict, program_sqnr_db
from nnkit.recipe.sections import Calibration
from nnkit.rewrite import RewriteLog
from nnkit.samples import Sample
from nnkit.target import Quantization
from nnkit_tpu import bias_correction, weight_rounding
from nnkit_tpu.integer_parameters import IntegerWeights
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuConv, TpuMatMul
from nnkit_tpu.target import TpuTarget
from nnkit_tpu.weight_rounding import ADAROUND

_SHAPE = (1, 8, 10, 10)


@pytest.fixture(scope="module")
def weights() -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(3)
    shapes = {"w1": (16, 8, 3, 3), "w2": (16, 1, 3, 3), "w3": (12, 16, 1, 1), "w4": (12, 6)}
    return {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def network(weights: dict[str, NDArray[np.float32]], tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Convolutions with 3x3 taps, depthwise and 1x1, rectifiers between them, and a matrix product of the mean."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], strides=[2, 2], group=16),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3"], ["c3"]),
        helper.make_node("GlobalAveragePool", ["c3"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w4"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, _SHAPE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "c3")],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    path = tmp_path_factory.mktemp("rounding") / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return import_onnx(path).model


def _samples(seed: int, count: int) -> list[Sample]:
    """Inputs whose channels go together, as real ones do."""
    random = np.random.default_rng(seed)
    mixing = np.random.default_rng(0).normal(0, 1, (8, 3))
    made = [np.einsum("cj,jhw->chw", mixing, random.normal(0.5, 1, (3, 10, 10))) for _ in range(count)]
    return [Sample("made", {"x": values[None].astype(np.float32)}) for values in made]


def _program(
    model: Model,
    samples: list[Sample],
    chip: str,
    corrections: list[str] | None,
    *,
    tried: tuple[MethodTrial, ...] = (),
) -> Program:
    """tried: the methods that the ranges' one was chosen among."""
    observed = replace(calibrate(model, {"x": [sample.inputs["x"] for sample in samples]}, {}), trials=tried)
    settings = Calibration.model_validate({"corrections": corrections})
    wanted = Quantization("net", observed, settings, {}, lambda count: samples[:count])
    target, options = TpuTarget(), TpuOptions.model_validate({"chip": chip})
    return target.quantize(target.lower(model, RewriteLog(), options), wanted, options)


def _integers(program: Program) -> dict[str, NDArray[np.int16]]:
    return {
        op.output: op.integer.weight
        for op in program.ops
        if isinstance(op, TpuConv | TpuMatMul) and isinstance(op.integer, IntegerWeights)
    }


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_unseen_outputs_are_nearer_to_onnx_runtime(network: Model, chip: str) -> None:
    seen, unseen = _samples(1, 16), _samples(2, 32)
    plain, better = (_program(network, seen, chip, names) for names in ([], [ADAROUND]))
    assert better.notes[-1].startswith("adaptive rounding kept: ")
    assert program_sqnr_db(network, better, unseen) > program_sqnr_db(network, plain, unseen) + 0.1


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_weights_are_neighbours_on_the_same_grid(network: Model, chip: str) -> None:
    plain, better = (_program(network, _samples(1, 8), chip, names) for names in ([], [ADAROUND]))
    before, after = _integers(plain), _integers(better)
    assert before.keys() == after.keys()
    moved = {name: np.abs(after[name].astype(int) - before[name].astype(int)) for name in before}
    assert all(each.max() <= 1 for each in moved.values())
    assert sum(int(each.sum()) for each in moved.values()) > 20
    for one, other in zip(plain.ops, better.ops, strict=True):
        if isinstance(one, TpuConv) and isinstance(other, TpuConv):
            assert isinstance(one.integer, IntegerWeights)
            assert isinstance(other.integer, IntegerWeights)
            np.testing.assert_array_equal(one.integer.requant.multiplier, other.integer.requant.multiplier)
            np.testing.assert_array_equal(one.integer.requant.shift, other.integer.requant.shift)


def test_each_layer_loses_less_of_what_it_makes(network: Model, weights: dict[str, NDArray[np.float32]]) -> None:
    """The first layer's sums over what it reads, in numpy: the error of the rounded weights against the nearest's."""
    seen = _samples(1, 8)
    plain, better = (_integers(_program(network, seen, "bm1684x", names)) for names in ([], [ADAROUND]))
    (name,) = [each for each, values in plain.items() if values.shape == (16, 8, 3, 3)]
    scales = np.abs(weights["w1"]).reshape(16, -1).max(axis=1) / 127.0
    pixels = np.concatenate([np.pad(each.inputs["x"], ((0, 0), (0, 0), (1, 1), (1, 1))) for each in seen])
    columns = np.lib.stride_tricks.sliding_window_view(pixels, (3, 3), axis=(2, 3))
    columns = columns.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 72).astype(np.float64)

    def error(stored: NDArray[np.int16]) -> float:
        off = stored.reshape(16, 72) * scales[:, None] - weights["w1"].reshape(16, 72)
        return float(np.square(columns @ off.T).sum())

    assert error(better[name]) < 0.5 * error(plain[name])


def _judged(monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    verdict = Verdict(kept, "adaptive rounding judged")
    monkeypatch.setattr(bias_correction, "judge_of", lambda **how: lambda label, without, with_it: verdict)


@pytest.mark.parametrize("kept", [True, False])
def test_one_that_is_not_kept_leaves_the_weights(network: Model, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    _judged(monkeypatch, kept)
    plain, judged = (_program(network, _samples(1, 8), "bm1684x", names) for names in ([], [ADAROUND]))
    assert judged.notes == ("adaptive rounding judged",)
    same = all(np.array_equal(values, _integers(judged)[name]) for name, values in _integers(plain).items())
    assert same == (not kept)


def test_layers_beyond_the_work_stay_as_they_are(network: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_rounding, "_MOST_WORK", 16 * 9**2 + 6 * 12**2)  # depthwise and matrix product
    _judged(monkeypatch, kept=True)
    seen = _samples(1, 8)
    plain, better = (_integers(_program(network, seen, "bm1684x", names)) for names in ([], [ADAROUND]))
    moved = {values.shape for name, values in plain.items() if not np.array_equal(values, better[name])}
    assert (16, 1, 3, 3) in moved
    assert not moved & {(16, 8, 3, 3), (12, 16, 1, 1)}


def test_layers_on_vectors_that_are_images_on_the_chip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head of MobileNetV3: two fully connected layers, which become convolutions, with an activation between."""
    random = np.random.default_rng(6)
    shapes = {"w0": (16, 8, 3, 3), "w1": (16, 32), "b1": (32,), "w2": (32, 6), "b2": (6,)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w1", "b1"], ["h"]),
        helper.make_node("HardSwish", ["h"], ["s"]),
        helper.make_node("Gemm", ["s", "w2", "b2"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, _SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(random.normal(0, 0.3, s).astype(np.float32), n) for n, s in shapes.items()],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    model, seen = import_onnx(path).model, _samples(1, 8)
    _judged(monkeypatch, kept=True)
    plain, better = (_program(model, seen, "bm1684x", names) for names in ([], [ADAROUND]))
    assert sum(isinstance(op, TpuConv) for op in plain.ops) == 3
    moved = {n for n, values in _integers(plain).items() if not np.array_equal(values, _integers(better)[n])}
    assert len(moved) == 3
    assert program_sqnr_db(model, better, _samples(2, 16)) > program_sqnr_db(model, plain, _samples(2, 16))


def test_a_recipe_that_names_no_method_and_no_corrections_gets_it_judged(network: Model) -> None:
    tried = (MethodTrial("kl", 30.0),)
    first, *notes = _program(network, _samples(1, 16), "bm1684x", None, tried=tried).notes
    assert first == "y runs in F16: its results are outputs"
    assert [note.split(" ")[0:2] for note in notes] == [["adaptive", "rounding"], ["bias", "correction"]]
    assert _program(network, _samples(1, 3), "bm1684x", None, tried=tried).notes == (first,)
    (note,) = _program(network, _samples(1, 16), "bm1684x", None).notes  # a method is named: nothing was tried
    assert note.startswith("bias correction ")


def test_too_few_images_are_told(network: Model) -> None:
    with pytest.raises(RecipeError, match="there are 3"):
        _program(network, _samples(1, 3), "bm1684x", [ADAROUND])
