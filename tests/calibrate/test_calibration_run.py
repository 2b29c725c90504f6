"""Calibration of a small network against ONNX's own reference evaluator."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from calibration_network import RNG, SETTINGS, SHAPE, calibrated, graph_model, with_bad_files
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from nnkit.calibrate import (
    CalibrationStats,
    Job,
    calibrate,
    observe,
    read_table,
    refit,
    stats_from_bytes,
    stats_to_bytes,
    to_stats,
    write_table,
)
from nnkit.errors import RecipeError
from nnkit.graph import InputSpec, LayerTags, Model
from nnkit.preprocess import Preprocess, Resize

VALUES = ["image", "conv1", "relu1", "pool1", "conv2", "out"]


def _reference(model: Model, paths: list[Path]) -> dict[str, np.ndarray]:
    """All numbers of each value over all pictures, by OpenCV, the formula and ONNX's reference evaluator."""
    proto = model.proto()
    names = VALUES[1:]
    del proto.graph.output[:]
    proto.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    evaluator = ReferenceEvaluator(proto)
    found: dict[str, list[np.ndarray]] = {name: [] for name in VALUES}
    for path in paths:
        pixels = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE).astype(np.float64)
        image = ((pixels - 100.0) / 64).astype(np.float32).reshape(SHAPE)
        outputs = evaluator.run(names, {"image": image})
        for name, values in zip(VALUES, [image, *outputs], strict=True):
            found[name].append(values.ravel())
    return {name: np.concatenate(values) for name, values in found.items()}


def test_extremes_are_those_of_the_reference(model: Model, pictures: list[Path]) -> None:
    stats = calibrated(model, pictures)
    expected = _reference(model, pictures)
    assert list(stats.ranges) == VALUES  # neither weights nor constants nor integers
    for name, values in expected.items():
        found = stats.ranges[name]
        assert found.low == pytest.approx(values.min(), rel=1e-5, abs=1e-6)
        assert found.high == pytest.approx(values.max(), rel=1e-5, abs=1e-6)
        assert (found.low, found.high) == (found.observed_low, found.observed_high)
    assert (stats.method, stats.images, stats.skipped) == ("max", 12, ())


def test_percentiles_are_those_of_the_reference(model: Model, pictures: list[Path]) -> None:
    stats = calibrated(model, pictures, method="percentile", percentile=98.0)
    for name, values in _reference(model, pictures).items():
        found, width = stats.ranges[name], stats.histograms[name].width
        low, high = np.quantile(values, [0.01, 0.99], method="inverted_cdf")
        gap = 1.001 * width + 1e-5
        assert high - gap <= found.high <= np.quantile(values, 0.99, method="higher") + gap
        assert np.quantile(values, 0.01, method="lower") - gap <= found.low <= low + gap
    assert stats.percentile == 98.0


def mse_ranges(model: Model, pictures: list[Path], bits: int) -> CalibrationStats:
    observed = observe(Job(model, {"image": SETTINGS}, histograms=True), {"image": pictures})
    return to_stats(model, observed, method="mse", mse_bits=bits)


def test_mse_ranges_fit_the_data(model: Model, pictures: list[Path]) -> None:
    stats = mse_ranges(model, pictures, 4)
    for name, values in _reference(model, pictures).items():
        signed = bool(values.min() < 0)
        levels = 8 if signed else 16
        errors = {}
        for exponent in range(-8, 8):
            step = 2.0**exponent
            q = np.clip(np.floor(values / step + 0.5), -levels if signed else 0, levels - 1)
            errors[(levels - 1) * step] = np.mean((values - q * step) ** 2)
        best = min(errors, key=lambda high: errors[high])
        assert stats.ranges[name].high == pytest.approx(min(best, values.max()), rel=1e-5)
    assert stats.mse_bits == 4


def test_mse_ranges_can_be_refitted_to_each_values_bits(model: Model, pictures: list[Path]) -> None:
    eight = mse_ranges(model, pictures, 8)
    coarse = mse_ranges(model, pictures, 2)
    assert eight.ranges["out"] != coarse.ranges["out"]
    mixed = refit(eight, {"out": 2, "unknown": 2})
    assert mixed.ranges["out"] == coarse.ranges["out"]
    assert mixed.ranges["conv1"] == eight.ranges["conv1"]
    assert mixed.digest != eight.digest
    extremes = calibrated(model, pictures)
    assert refit(extremes, {"out": 2}) is extremes


def test_parts_merge_to_the_whole(model: Model, pictures: list[Path]) -> None:
    def part(paths: list[Path]) -> object:
        return observe(Job(model, {"image": SETTINGS}, histograms=True), {"image": paths})

    a, b, c = part(pictures[:1]), part(pictures[1:8]), part(pictures[8:])
    whole = calibrated(model, pictures, method="percentile")
    for merged in (a.merged(b).merged(c), c.merged(a.merged(b))):  # type: ignore[attr-defined]
        assert to_stats(model, merged, method="percentile").digest == whole.digest


def test_lanes_change_nothing(model: Model, pictures: list[Path], tmp_path: Path) -> None:
    paths = with_bad_files(tmp_path, pictures)

    def digest(lanes: int) -> str:
        before = threading.active_count()
        counts: list[int] = []
        found = observe(
            Job(model, {"image": SETTINGS}, histograms=True, allowed_bad=2, lanes=lanes),
            {"image": paths},
            progress=lambda: counts.append(threading.active_count() - before),
        )
        assert [image.name for image in found.skipped] == [paths[1].as_posix(), paths[-1].as_posix()]
        assert (max(counts) > 0) == (lanes > 1)
        return to_stats(model, found, method="mse").digest

    assert digest(2) == digest(1) == digest(5)


def test_arrays_as_sources_and_progress(model: Model) -> None:
    arrays = [RNG.standard_normal(SHAPE), RNG.standard_normal(SHAPE[1:]).astype(np.float32)]
    calls: list[int] = []
    stats = calibrate(model, {"image": arrays}, {}, progress=lambda: calls.append(1))
    assert stats.ranges["image"].high == np.float32(max(array.max() for array in arrays))
    assert len(calls) == 2


def test_inputs_of_one_sample_belong_together(tmp_path: Path) -> None:
    model = graph_model(
        [
            helper.make_node("ReduceMax", ["a"], ["top"], keepdims=0),
            helper.make_node("Sub", ["b", "top"], ["difference"]),
        ],
        {"a": (1, 1, 2, 2), "b": (1, 3)},
        {},
    )
    pictures, arrays = [], []
    for index in range(5):
        pictures.append(tmp_path / f"{index}.png")
        cv2.imwrite(str(pictures[-1]), np.full((2, 2), 10 * index, np.uint8))
        arrays.append(tmp_path / f"{index}.npy")
        np.save(arrays[-1], np.full((1, 3), 10.0 * index))
    matched = calibrate(model, {"a": pictures, "b": arrays}, {})
    assert (matched.ranges["difference"].low, matched.ranges["difference"].high) == (0.0, 0.0)
    shifted = calibrate(model, {"a": pictures, "b": [*arrays[1:], arrays[0]]}, {})
    assert (shifted.ranges["difference"].low, shifted.ranges["difference"].high) == (-40.0, 10.0)
    with pytest.raises(RecipeError, match="'a' has 5, 'b' has 4"):
        calibrate(model, {"a": pictures, "b": arrays[1:]}, {})


def test_a_pinned_table_gives_the_same_ranges(model: Model, pictures: list[Path], tmp_path: Path) -> None:
    stats = calibrated(model, pictures, method="percentile")
    write_table(stats, tmp_path / "table.yaml")
    pinned = read_table(tmp_path / "table.yaml", model)
    assert pinned.ranges == stats.ranges
    assert (pinned.method, pinned.images, pinned.graph_digest) == ("table", 12, stats.graph_digest)
    text = (tmp_path / "table.yaml").read_text()
    (tmp_path / "cut.yaml").write_text("".join(line for line in text.splitlines(True) if '"pool1"' not in line))
    with pytest.raises(RecipeError, match="lacks 1 of the network's values: 'pool1'"):
        read_table(tmp_path / "cut.yaml", model)


def test_calibration_leaves_the_model_alone_and_repeats(model: Model, pictures: list[Path]) -> None:
    before = model.digest, model.onnx_bytes
    one, two = (calibrated(model, pictures, method="mse") for _ in range(2))
    assert one.digest == two.digest
    assert stats_from_bytes(stats_to_bytes(one)).digest == one.digest
    assert (model.digest, model.onnx_bytes) == before
    assert calibrated(model, pictures[1:], method="mse").digest != one.digest


_PEAK_MEMORY = """
import sys
from pathlib import Path
from nnkit.calibrate import calibrate
from nnkit.graph import InputSpec, LayerTags, Model
from nnkit.preprocess import Preprocess, Resize
folder, count = Path(sys.argv[1]), int(sys.argv[2])
model = Model((folder / "m.onnx").read_bytes(), LayerTags(), (InputSpec("x", (1, 1, 256, 256)),), (), 17)
pictures = [folder / f"{index % 8}.png" for index in range(count)]
settings = {"x": Preprocess(resize=Resize(256, 256, "bilinear"))}
stats = calibrate(model, {"x": pictures}, settings, method="percentile")
status = Path("/proc/self/status").read_text()  # not ru_maxrss, which starts at the parent's peak
print(status.split("VmHWM:")[1].split()[0], stats.images, stats.digest)
"""


def test_memory_does_not_grow_with_the_number_of_images(tmp_path: Path) -> None:
    """Peak memory of whole processes, 40 and 400 images; each image's values are 768 KiB: kept, 360 of them
    would be 276 MiB. The two processes have other hash seeds: the digest must not depend on them.
    """
    model = graph_model(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["z"])], {"x": (1, 1, 256, 256)}, {}
    )
    (tmp_path / "m.onnx").write_bytes(model.onnx_bytes)
    for index in range(8):
        cv2.imwrite(str(tmp_path / f"{index}.png"), RNG.integers(0, 256, (64, 64), dtype=np.uint8))

    def run(count: int, hash_seed: int) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        command = [sys.executable, "-c", _PEAK_MEMORY, str(tmp_path), str(count)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
        peak_kib, images, digest = done.stdout.split()
        assert int(images) == count
        return int(peak_kib), digest

    few, digest = run(40, 1)
    many, _ = run(400, 1)
    assert many - few < 24 * 1024
    assert run(40, 2)[1] == digest


def test_real_network_and_faces(shared_dir: Path) -> None:
    """The published face network: ranges of its input and output contain what its own reference descriptor shows."""
    path = shared_dir / "models" / "gap8_reid" / "reid.onnx"
    proto = onnx.load(path)
    name = proto.graph.input[0].name
    output = proto.graph.output[0].name
    model = Model(path.read_bytes(), LayerTags(), (InputSpec(name, (1, 1, 128, 128)),), (), 11)
    faces = sorted((shared_dir / "images" / "faces").glob("s1/*.pgm"))[:3]
    preprocess = Preprocess(resize=Resize(128, 128, "bilinear"))
    stats = calibrate(model, {name: faces}, {name: preprocess}, method="percentile")
    assert 0.0 <= stats.ranges[name].observed_low <= stats.ranges[name].observed_high <= 255.0
    found = stats.ranges[output]
    assert found.observed_low <= found.low < found.high <= found.observed_high
    produced = {value for node in proto.graph.node for value in node.output}
    assert set(stats.ranges) <= produced | {name}


def test_extremes_behind_relus_are_those_that_onnx_runtime_computes() -> None:
    """They are derived from what the Relu rectifies: one after another, of an input, of values of one sign."""
    nodes = [
        helper.make_node("Relu", ["image"], ["rectified"]),
        helper.make_node("Neg", ["rectified"], ["negative"]),
        helper.make_node("Relu", ["negative"], ["nothing"]),
        helper.make_node("Sub", ["rectified", "image"], ["difference"]),
        helper.make_node("Relu", ["difference"], ["twice"]),
        helper.make_node("Relu", ["twice"], ["thrice"]),
        helper.make_node("Add", ["thrice", "nothing"], ["out"]),
    ]
    model = graph_model(nodes, {"image": (1, 1, 5, 7)}, {})
    samples = [RNG.standard_normal((1, 1, 5, 7)).astype(np.float32) for _ in range(4)]
    stats = calibrate(model, {"image": samples}, {}, method="max")
    histograms = calibrate(model, {"image": samples}, {}, method="percentile", percentile=100.0)
    assert list(stats.ranges) == list(histograms.ranges)
    for name, found in stats.ranges.items():
        expected = histograms.ranges[name]  # each of these values was fetched and counted
        assert (found.observed_low, found.observed_high) == (expected.observed_low, expected.observed_high), name
