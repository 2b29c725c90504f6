"""Tuned ranges: against a search written anew here, judged on held-out inputs, once, and kept by a pinned table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from small_project import make_build, write_project

import nnkit.calibrate.methods as methods_module
import nnkit.quantize.observed as observed_module
from nnkit import pipeline
from nnkit.cache import StageCache
from nnkit.calibrate.run import calibrate
from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.importers import import_onnx
from nnkit.program import Program
from nnkit.quantize.judge import program_sqnr_db
from nnkit.quantize.range_tuning import STEPS, Parts, Quantiser, RangeTuning, choose_tuning, tuned_ranges
from nnkit.recipe.sections import Calibration
from nnkit.report.calibration_table import calibration_table
from nnkit.rewrite import RewriteLog
from nnkit.samples import Sample
from nnkit.target import Quantization
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.target import TpuTarget
from nnkit_tpu.thresholds import fitted

_SHAPE = (1, 4, 8, 8)


@pytest.fixture(scope="module")
def weights() -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(5)
    shapes = {"w1": (6, 4, 1, 1), "w2": (5, 6, 1, 1), "w3": (3, 6, 1, 1)}
    return {name: random.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def network(weights: dict[str, NDArray[np.float32]], tmp_path_factory: pytest.TempPathFactory) -> Model:
    """x -> 1x1 convolution and rectifier -> r, which two other convolutions read."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "w2"], ["y"]),
        helper.make_node("Conv", ["r", "w3"], ["z"]),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, _SHAPE)],
        outputs,
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    path = tmp_path_factory.mktemp("tuning") / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return import_onnx(path).model


def _samples(seed: int, count: int, largest: float) -> list[Sample]:
    """Normal numbers, one in fifty of them as much larger."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        values = random.normal(0, 1, _SHAPE)
        values[random.random(_SHAPE) < 0.02] *= largest
        made.append(Sample("made", {"x": values.astype(np.float32)}))
    return made


def _quantiser(model: Model) -> Quantiser:
    target, options = TpuTarget(), TpuOptions(chip="bm1684x")
    lowered = target.lower(model, RewriteLog(), options)
    settings = Calibration.model_validate({"corrections": []})

    def quantise(ranges: CalibrationStats) -> Program:
        return target.quantize(lowered, Quantization("net", ranges, settings, {}, lambda count: []), options)

    return Quantiser(lambda ranges: fitted(lowered.graph, ranges, always_signed=False), quantise)


def _clipped(model: Model, samples: Sequence[Sample], share: float) -> CalibrationStats:
    """Ranges of this share of what was seen."""
    observed = calibrate(model, {"x": [sample.inputs["x"] for sample in samples]}, {})
    ranges = {
        name: ValueRange(share * each.low, share * each.high, each.low, each.high)
        for name, each in observed.ranges.items()
    }
    return CalibrationStats(ranges, "kl", observed.images, observed.graph_digest)


def _conv(values: NDArray[np.float64], weight: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.einsum("oi,nihw->nohw", weight[:, :, 0, 0].astype(np.float64), values)


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_each_range_is_the_best_of_a_search_by_hand(
    network: Model, weights: dict[str, NDArray[np.float32]], share: float
) -> None:
    """In numpy: every threshold of the nine between the clipped one and the largest magnitude, stored and read back,
    then the layers that read it."""
    samples = _samples(1, 4, 6.0)
    start = _clipped(network, samples, share)
    tuned = tuned_ranges(Parts(network), start, samples, _quantiser(network).quantise)
    x = np.concatenate([sample.inputs["x"] for sample in samples]).astype(np.float64)
    r = np.maximum(_conv(x, weights["w1"]), 0.0)
    readers = {
        "x": (x, [lambda v: np.maximum(_conv(v, weights["w1"]), 0.0)], 127.0, -128.0),
        "r": (r, [lambda v: _conv(v, weights["w2"]), lambda v: _conv(v, weights["w3"])], 255.0, 0.0),
    }
    for name, (values, layers, steps, lowest) in readers.items():
        limit = float(np.abs(values).max())
        errors = []
        for step in range(STEPS + 1):
            threshold = share * limit + (limit - share * limit) * step / STEPS
            scale = threshold / steps
            kept = np.clip(np.rint(values / scale), lowest, steps) * scale
            total = 0.0
            for layer in layers:
                wrong, right = layer(kept) - layer(values), layer(values)
                total += float((np.square(wrong).sum((1, 2, 3)) / np.square(right).sum((1, 2, 3))).sum())
            errors.append(total)
        best = int(np.argmin(errors))
        assert best > 0
        expected = share * limit + (limit - share * limit) * best / STEPS
        assert tuned[name].max_abs == pytest.approx(expected, rel=1e-5), (name, best, errors)
    assert set(tuned) == {"x", "r"}, "nothing reads the outputs"


def test_rows_may_stand_on_the_first_axis(tmp_path: Path) -> None:
    """[rows, images, values], as transformers have them, by a matrix: the range that is best over all rows."""
    random = np.random.default_rng(5)
    constants = {
        "rows": np.array([2, 16, 8], np.int64),
        "image": np.array([1, 32, 6], np.int64),
        "w": random.normal(0, 0.5, (8, 6)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Reshape", ["x", "rows"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0, 2]),
        helper.make_node("MatMul", ["t", "w"], ["m"]),
        helper.make_node("Transpose", ["m"], ["b"], perm=[1, 0, 2]),
        helper.make_node("Reshape", ["b", "image"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, _SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx"
    )
    model = import_onnx(tmp_path / "n.onnx").model
    samples = _samples(1, 4, 6.0)
    tuned = tuned_ranges(Parts(model), _clipped(model, samples, 0.2), samples, _quantiser(model).quantise)
    x = np.concatenate([sample.inputs["x"] for sample in samples]).astype(np.float64).reshape(4, 32, 8)
    limit, errors = float(np.abs(x).max()), []
    for step in range(STEPS + 1):
        scale = limit * (0.2 + 0.8 * step / STEPS) / 127.0
        wrong = (np.clip(np.rint(x / scale), -128, 127) * scale - x) @ constants["w"].astype(np.float64)
        right = x @ constants["w"].astype(np.float64)
        errors.append(float((np.square(wrong).sum((1, 2)) / np.square(right).sum((1, 2))).sum()))
    best = int(np.argmin(errors))
    assert best > 0
    assert tuned["t"].max_abs == pytest.approx(limit * (0.2 + 0.8 * best / STEPS), rel=1e-5)


def test_ranges_that_clip_nothing_stay(network: Model) -> None:
    samples = _samples(1, 4, 6.0)
    assert tuned_ranges(Parts(network), _clipped(network, samples, 1.0), samples, _quantiser(network).quantise) == {}


def test_it_is_kept_where_unseen_outputs_gain_and_undone_where_they_do_not(network: Model) -> None:
    """97 percent of the numbers leave the few large ones clipped; where there are none, nothing is to be gained."""
    quantiser, notes = _quantiser(network), []
    for largest, percentile, kept in ((6.0, 97.0, True), (1.0, 99.99, False)):
        samples, unseen = _samples(1, 12, largest), _samples(2, 12, largest)
        inputs = {"x": [sample.inputs["x"] for sample in samples]}
        statistics = calibrate(network, inputs, {}, method="percentile", percentile=percentile)
        tuning = choose_tuning(
            network, statistics, samples, quantiser, "percentile", percentile=percentile, asked=False
        )
        notes.append(tuning.note)
        assert bool(tuning.ranges) == kept, tuning.note
        after = tuning.applied(quantiser.fit(statistics))
        before_db, after_db = (
            program_sqnr_db(network, quantiser.quantise(each), unseen) for each in (statistics, after)
        )
        assert after_db > before_db + 1.0 if kept else after_db == before_db
    assert notes[0].startswith("range tuning kept: ")
    assert notes[1].startswith("range tuning undone: ")


def test_statistics_without_tuned_ranges_have_the_digest_that_they_had() -> None:
    plain = CalibrationStats({"x": ValueRange(-1.0, 1.0, -2.0, 2.0)}, "kl", 4, "graph")
    moved = RangeTuning({"x": ValueRange(-2.0, 2.0, -2.0, 2.0)}, "").applied(plain)
    assert RangeTuning({}, "").applied(plain).digest == plain.digest
    assert moved.digest != plain.digest
    assert moved.tuned == {"x"}
    text = (
        "('kl', 4, 'graph', None, None, ())'x':ValueRange(low=-1.0, high=1.0, observed_low=-2.0, observed_high=2.0)\n"
    )
    assert plain.digest == hashlib.sha256(text.encode()).hexdigest()


def _recipe(folder: Path, calibration: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = write_project(folder, images=4)
    text = path.read_text().replace("gap8: {}", "tpu: {chip: bm1684x}")
    path.write_text(text.replace("release:", f"calibration: {calibration}\nrelease:"))
    return path


def test_it_is_searched_once_and_a_pinned_table_gives_the_same_program(tmp_path: Path) -> None:
    path, cache = _recipe(tmp_path, "{method: kl, corrections: [tune_ranges]}"), StageCache(tmp_path / "cache")
    first, again = make_build(path, cache, target="tpu"), make_build(path, cache, target="tpu")
    tuned, repeated = pipeline.prepare(first), pipeline.prepare(again)
    assert {timing.name: timing.cached for timing in again.progress.timings}["tune ranges"]
    assert tuned.statistics.tuned
    assert tuned.program.digest == repeated.program.digest
    wanted = Quantization("small", tuned.statistics, Calibration(), {}, lambda count: [])
    used = first.target.ranges_used(tuned.settled.lowered, wanted, tuned.program, first.options)
    (tmp_path / "table.yaml").write_text(calibration_table(used))
    path.write_text(
        path.read_text().replace("{method: kl, corrections: [tune_ranges]}", "{table: table.yaml, corrections: []}")
    )
    assert pipeline.prepare(make_build(path, target="tpu")).program.digest == tuned.program.digest


def test_there_is_nothing_to_tune_in_ranges_of_the_extremes(tmp_path: Path) -> None:
    path = _recipe(tmp_path, "{method: max, corrections: [tune_ranges]}")
    with pytest.raises(RecipeError, match="narrower than what was seen, and there are none"):
        pipeline.prepare(make_build(path, target="tpu"))


def test_the_method_and_the_tuning_share_what_was_observed_and_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four quarters of four images are observed once each, and every range of a histogram is searched once."""
    observed, searched = [], []
    observe, search = observed_module.calibrate, methods_module.kl_range
    monkeypatch.setattr(observed_module, "calibrate", lambda *a, **k: observed.append(a) or observe(*a, **k))
    monkeypatch.setattr(methods_module, "kl_range", lambda *a: searched.append(a) or search(*a))
    build = make_build(_recipe(tmp_path, "{corrections: [tune_ranges], method: auto}"), target="tpu")
    pipeline.prepare(build)
    assert len(observed) == 4
    assert len({(id(each[0]), *each[1:]) for each in searched}) == len(searched)
