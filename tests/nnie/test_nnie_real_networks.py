"""Published networks by the command line: refused with all reasons, or built, and OpenCV reads what was emitted."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from caffe_reference import relative_error, run_opencv
from google.protobuf import text_format
from numpy.typing import NDArray
from small_project import make_build

from benchmarks.nnie_networks import NETWORKS, NO_TABLE, first_layers, report_of, run, write_recipe
from nnkit import pipeline, stages
from nnkit.builds import open_build
from nnkit.cache import StageCache
from nnkit.caffe.schema import messages
from nnkit.preprocess import Preprocess, load_input
from nnkit.program.inputs import quantized_inputs
from nnkit.recipe import Preprocess as WrittenPreprocess
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.gfpq.ops import NnieWeighted

WITHIN = ("mtcnn_det1", "mtcnn_det2", "enet")


def image_of(name: str, shared: Path, file: Path | None = None) -> NDArray[np.float32]:
    """A picture as the network's publishers feed it."""
    network = NETWORKS[name]
    mean = json.loads(network.mean)
    given = {
        "color": network.color,
        "resize": {"size": list(network.size)},
        "mean": mean if isinstance(mean, list) else [mean],
        "scale": [network.scale],
    }
    shape = (1, 3, *network.size)
    chosen = file or sorted(shared.glob(network.images))[-1]
    return load_input(chosen, Preprocess.from_recipe(WrittenPreprocess(**given), shape), shape)


def published(name: str, shared: Path, height_width: tuple[int, int]) -> tuple[bytes, bytes]:
    """The Caffe files that the network came in, for an input of that size; the ONNX twin of RFB-320 has RFB-320's."""
    network = NETWORKS["rfb_320" if name == "rfb_320_onnx" else name]
    assert network.weights is not None
    text = text_format.Parse((shared / network.model).read_text(), messages.NetParameter(), allow_unknown_field=True)
    if name not in ("res10_ssd",):
        if text.input_dim:
            text.input_dim[2:] = height_width
        elif text.input_shape:
            text.input_shape[0].dim[2:] = height_width
        else:
            text.layer[0].input_param.shape[0].dim[2:] = height_width
    return text_format.MessageToString(text).encode(), (shared / network.weights).read_bytes()


def without_layers(prototxt: str, names: Sequence[str]) -> bytes:
    """A network without some layers: OpenCV cannot create Custom."""
    parsed = text_format.Parse(prototxt, messages.NetParameter())
    left = [layer for layer in parsed.layer if layer.name not in names]
    assert len(parsed.layer) - len(left) == len(names)
    del parsed.layer[:]
    parsed.layer.extend(left)
    return text_format.MessageToString(parsed).encode()


def compare_with_published(name: str, out: Path, shared: Path) -> None:
    """The NNIE's part of the emitted pair, and the published files, both in OpenCV: what leaves the NNIE is the same.

    Names of layers and blobs are kept, so that they are found in both.
    """
    artifact = out / name / "nnie" / "artifact"
    segments = json.loads((artifact / "segments.json").read_text())["segments"]
    on_cpu = [n for s in segments if s["runs_on"] == "cpu" for layer in s["layers"] for n in layer["written_as"]]
    outputs = {tensor["blob"]: tensor["blob"] for tensor in segments[0]["outputs"]}
    feeds = {NETWORKS[name].input_name: image_of(name, shared)}
    emitted = without_layers((artifact / f"{name}.prototxt").read_text(), on_cpu)
    found = run_opencv(emitted, (artifact / f"{name}.caffemodel").read_bytes(), feeds, outputs)
    expected = run_opencv(*published(name, shared, NETWORKS[name].size), feeds, outputs)
    assert found
    for blob, values in expected.items():
        assert float(np.abs(values).max()) > 1e-3
        assert relative_error(found[blob], values) < 1e-4, blob


def verdicts(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["how"]: entry for entry in report["verify"]["program_vs_artifact"]}


@pytest.mark.parametrize("name", WITHIN)
def test_networks_within_the_limits(name: str, tmp_path: Path, shared_dir: Path) -> None:
    """Everything on the NNIE; Deconvolution (ENet) too."""
    done = run(write_recipe(tmp_path, name, shared_dir, calibrated=2, verified=1, more=NO_TABLE), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path / "out", name)
    assert [part["runs_on"] for part in report["details"]["segments"]] == ["nnie"]
    assert verdicts(report)["caffe"]["mismatches"] == 0
    assert verdicts(report)["caffe"]["values"] > 1000
    assert report["verify"]["float_vs_program"]["cosine"] > 0.95
    compare_with_published(name, tmp_path / "out", shared_dir)


def assert_refused(name: str, folder: Path, shared: Path, layers: Sequence[str]) -> None:
    """Exit code 3, all of these layers in one message, with the way out, and nothing written."""
    done = run(write_recipe(folder / "refused", name, shared, refuse=True, calibrated=2), folder / "refused_out")
    assert done.returncode == 3
    refusal = done.stderr.partition("error: ")[2]
    told = [any(f"{layer[:-1]}{end}" in refusal for end in ("; found ", "): ")) for layer in layers]
    for count, first, kind in re.findall(r"(\d+) times, the first: (\S+) \((\w+)", refusal):  # layers alike, folded
        alike = [index for index, layer in enumerate(layers) if layer.endswith(f" ({kind})")][: int(count)]
        assert f"{first} ({kind})" == layers[alike[0]]
        assert len(alike) == int(count)
        told = [is_told or index in alike for index, is_told in enumerate(told)]
    assert [layer for layer, is_told in zip(layers, told, strict=True) if not is_told] == []
    assert refusal.startswith(f"{len(layers)} limits")
    assert "at most 4,096" in refusal
    assert "`outside_limits: custom`" in refusal
    assert not list((folder / "refused_out").rglob("*.prototxt"))


@pytest.mark.parametrize("name", ["rfb_320", "rfb_320_onnx"])
def test_networks_beyond_the_limits_with_their_cpu_segments(name: str, tmp_path: Path, shared_dir: Path) -> None:
    """The Reshapes of the published file to three dimensions, and rows of 4,420 boxes, are not for the NNIE."""
    reshapes = [f"{layer} (Reshape)" for layer in (328, 342, 374, 388, 414, 428, 446, 458)]
    assert_refused(name, tmp_path, shared_dir, [*reshapes, "459 (Concat)", "boxes (Concat)", "scores (Softmax)"])
    done = run(write_recipe(tmp_path, name, shared_dir, calibrated=2, verified=1, more=NO_TABLE), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path / "out", name)
    assert [part["runs_on"] for part in report["details"]["segments"]] == ["nnie", "cpu"]
    assert verdicts(report)["caffe"]["mismatches"] == verdicts(report)["cpu_c"]["mismatches"] == 0
    assert verdicts(report)["cpu_c"]["values"] >= 4420 * (4 + 2)  # boxes and scores of one image
    compare_with_published(name, tmp_path / "out", shared_dir)


def overlap(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Intersection over union of two boxes x0, y0, x1, y1."""
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0.0)
    shared = float(sides.prod())
    return shared / (float((a[2:] - a[:2]).prod()) + float((b[2:] - b[:2]).prod()) - shared)


def test_detections_of_a_real_ssd_in_8_bits(tmp_path: Path, shared_dir: Path) -> None:
    """NNIE in 8 bits and the CPU's DetectionOutput, against OpenCV's float detections of the published network."""
    name = "res10_ssd"
    flat = [f"{x}_mbox_{y}_flat (Flatten)" for x in ("conv4_3_norm", "fc7") for y in ("loc", "conf")]
    rows = ["mbox_loc (Concat)", "mbox_conf (Concat)", "mbox_conf_softmax (Softmax)", "mbox_conf_flatten (Flatten)"]
    assert_refused(
        name, tmp_path, shared_dir, [*flat, *rows, *["mbox_conf_reshape (Reshape)"] * 2]
    )  # for two reasons
    done = run(write_recipe(tmp_path, name, shared_dir, calibrated=4, verified=1, more=NO_TABLE), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    build = open_build(tmp_path / "out" / name / "nnie")
    assert verdicts(build.report)["caffe"]["mismatches"] == verdicts(build.report)["cpu_c"]["mismatches"] == 0
    assert verdicts(build.report)["cpu_c"]["values"] == 200 * 7
    # conv9_2_h has one pixel, but is no projection: nothing is suggested for it.
    assert not any("projection" in note for note in build.report["details"]["notes"])
    compare_with_published(name, tmp_path / "out", shared_dir)

    files, found = published(name, shared_dir, (300, 300)), 0
    for file in sorted(shared_dir.glob(NETWORKS[name].images)):
        image = image_of(name, shared_dir, file)
        reference = run_opencv(*files, {"data": image}, {"detection_out": "detection_out"})["detection_out"]
        reference = reference.reshape(-1, 7)
        stored = quantized_inputs(build.program, Sample(file.name, {"data": image}))
        ours = simulate(build.program, stored)["detection_out"].reshape(-1, 7)
        strong = ours[(ours[:, 0] >= 0) & (ours[:, 2] > 0.55)]
        for row in reference[reference[:, 2] > 0.5]:
            best = max(ours[ours[:, 0] >= 0], key=lambda other: overlap(row[3:], other[3:]))
            assert overlap(row[3:], best[3:]) > 0.9
            assert abs(row[2] - best[2]) < 0.05
            found += 1
        for box in strong:  # and nothing that the float network does not see
            assert max(overlap(box[3:], row[3:]) for row in reference) > 0.9
    assert found >= 20


def test_accuracy_on_photos(tmp_path: Path, shared_dir: Path) -> None:
    """The float network's accuracy in the report is OpenCV's, on labels from the WordNet ids in file names."""
    name, chosen = "squeezenet_v10", "n020*.JPEG"
    recipe = write_recipe(tmp_path, name, shared_dir, calibrated=4, verified=4, more=NO_TABLE)
    calibration, _, verify = recipe.read_text().partition("verify: ")
    recipe.write_text(f"{calibration}verify: {verify.replace('n*.JPEG', chosen)}")
    done = run(recipe, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    compare_with_published(name, tmp_path / "out", shared_dir)
    metrics = {m["name"]: m for m in report_of(tmp_path / "out", name)["verify"]["task"]["metrics"]}

    ids = [line.split()[0] for line in (shared_dir / "models/squeezenet_v10_dc/synset_words.txt").open()]
    pair, hits = published(name, shared_dir, (227, 227)), {1: 0, 5: 0}
    files = sorted((shared_dir / "images" / "photos").glob(chosen))
    assert len(files) == 4
    for file in files:
        found = run_opencv(*pair, {"data": image_of(name, shared_dir, file)}, {"pool_final": "pool_final"})
        ranked = np.argsort(-found["pool_final"].reshape(-1))
        for best in hits:
            hits[best] += int(ids.index(file.name.split("_")[0]) in ranked[:best])
    assert hits[5] >= 2
    for best, count in hits.items():
        assert metrics[f"top{best}_accuracy"]["float"] == pytest.approx(count / len(files))
        assert metrics[f"top{best}_accuracy"]["program"] >= count / len(files) - 0.25  # at most one photo is lost


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> StageCache:
    """Import, restructuring and calibration do not depend on the compile mode."""
    return StageCache(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("name", sorted(set(NETWORKS) - {"enet_own_size"}))
def test_what_plan_accepts_is_written_in_each_compile_mode(
    name: str, mode: int, tmp_path: Path, cache: StageCache, shared_dir: Path
) -> None:
    """In mode 2 what reads the image has 16 bits, and carries the tag in the prototxt."""
    recipe = write_recipe(tmp_path, name, shared_dir, mode=mode, calibrated=1)
    tagged = first_layers(recipe) if mode == 2 else []
    more = f", tags: {{hp: {json.dumps(tagged)}}}"
    recipe = write_recipe(tmp_path, name, shared_dir, mode=mode, calibrated=1, more=more)
    build = make_build(recipe, cache, target="nnie")
    planned = pipeline.preview(build)
    assert planned.calibrated
    statistics = stages.calibrate(build, planned.restructured)
    stages.emit(build, planned.settled, statistics, planned.program, planned.plan, tmp_path)
    artifact = tmp_path / "artifact"
    assert f"[compile_mode] {mode}\n" in (artifact / f"{name}.cfg").read_text()
    network = text_format.Parse((artifact / f"{name}.prototxt").read_text(), messages.NetParameter())
    assert len([layer for layer in network.layer if layer.name.endswith("_hp")]) >= len(tagged)
    assert bool(tagged) == any(layer.name.endswith("_hp") for layer in network.layer)
    bits = {op.read_as.bits for op in planned.program.ops if isinstance(op, NnieWeighted)}
    assert bits == ({8}, {16}, {8, 16})[mode]
