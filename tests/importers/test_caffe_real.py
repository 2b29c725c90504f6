"""Real Caffe networks: imported float outputs against OpenCV, RFB-320 against its ONNX twin, res10's detections."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from caffe_reference import relative_error, run_opencv

from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import TagGlobs, caffe_digest, import_caffe, import_onnx

NETWORKS = {
    "det1": ("mtcnn/det1.prototxt", "mtcnn/det1.caffemodel"),
    "det2": ("mtcnn/det2.prototxt", "mtcnn/det2.caffemodel"),
    "squeezenet": ("squeezenet_v10_dc/SqueezeNet_deploy.prototxt", "squeezenet_v10_dc/SqueezeNet_v1.0_dc.caffemodel"),
    "rfb": ("ulfg/RFB-320.prototxt", "ulfg/RFB-320.caffemodel"),
    "enet": ("enet_cityscapes/enet.prototxt", "enet_cityscapes/enet.caffemodel"),
}
RES10 = ("res10_ssd/res10_300x300_deploy.prototxt", "res10_ssd/res10_300x300_ssd_from_uint8.caffemodel")
PIXELS = {"squeezenet": 128.0, "enet": 255.0}


def files(shared: Path, pair: tuple[str, str]) -> tuple[Path, Path]:
    return shared / "models" / pair[0], shared / "models" / pair[1]


def makers(model: Model) -> dict[str, str]:
    """Layer by output."""
    nodes = {value: node.name for node in model.proto().graph.node for value in node.output}
    return {output.name: nodes[output.name] for output in model.outputs}


@pytest.mark.parametrize("name", NETWORKS)
def test_output_is_opencvs(name: str, shared_dir: Path) -> None:
    prototxt, weights = files(shared_dir, NETWORKS[name])
    model = import_caffe(prototxt, weights).model
    scale = PIXELS.get(name, 1.0)
    random = np.random.default_rng(7)
    feeds = {spec.name: random.uniform(-scale, scale, spec.shape).astype(np.float32) for spec in model.inputs}
    found = FloatSession(model).run(feeds)
    expected = run_opencv(prototxt.read_bytes(), weights.read_bytes(), feeds, makers(model))
    for blob, array in found.items():
        assert relative_error(array, expected[blob]) < 1e-4, blob


def test_networks_are_imported_as_they_were_written(shared_dir: Path) -> None:
    result = import_caffe(*files(shared_dir, NETWORKS["det1"]))
    assert [(i.name, i.shape) for i in result.model.inputs] == [("data", (1, 3, 12, 12))]
    assert [o.name for o in result.model.outputs] == ["conv4-2", "prob1"]
    names = [node.name for node in result.model.proto().graph.node]
    assert names == ["conv1", "PReLU1", "pool1", "conv2", "PReLU2", "conv3", "PReLU3", "conv4-1", "conv4-2", "prob1"]
    larger = import_caffe(*files(shared_dir, NETWORKS["det1"]), inputs={"data": (1, 3, 40, 48)}).model
    assert [o.shape for o in larger.outputs] == [(1, 4, 15, 19), (1, 2, 15, 19)]


def test_squeezenet_is_taken_with_batch_1_and_extra_weights_are_reported(shared_dir: Path) -> None:
    result = import_caffe(*files(shared_dir, NETWORKS["squeezenet"]))
    assert result.model.inputs[0].shape == (1, 3, 227, 227)
    notes = import_caffe(*files(shared_dir, NETWORKS["enet"])).notes
    assert any("weights for 83 layers that the prototxt does not have" in note for note in notes)


def test_rfb_in_caffe_is_rfb_in_onnx(shared_dir: Path) -> None:
    """The two files hold the same training; Caffe has the batch norms folded, so that rounding differs."""
    caffe = import_caffe(*files(shared_dir, NETWORKS["rfb"])).model
    onnx = import_onnx(shared_dir / "models/ulfg/version-RFB-320_without_postprocessing.onnx").model
    image = cv2.imread(str(shared_dir / "models/ulfg/images/1.jpg"))
    pixels = cv2.cvtColor(cv2.resize(image, (320, 240)), cv2.COLOR_BGR2RGB)
    x = ((pixels.astype(np.float32) - 127) / 128).transpose(2, 0, 1)[None].copy()
    found = FloatSession(caffe).run({caffe.inputs[0].name: x})
    expected = FloatSession(onnx).run({onnx.inputs[0].name: x})
    for name in ("scores", "boxes"):
        assert found[name].shape == expected[name].shape
        assert relative_error(found[name], expected[name]) < 1e-4


@pytest.mark.parametrize(("suffix", "clipped"), [("", True), ("_clean", False)])
def test_detections_of_res10_are_opencvs(suffix: str, clipped: bool, shared_dir: Path) -> None:
    """Row by row on sample images. One of the two prototxt files has `clip: 1` in its detection_output_param."""
    prototxt, weights = files(shared_dir, RES10)
    prototxt = prototxt.with_name(f"res10_300x300_deploy{suffix}.prototxt")
    result = import_caffe(prototxt, weights)
    assert not [note for note in result.notes if "unknown field" in note]
    session, total, beyond = FloatSession(result.model), 0, 0
    for name in ("2.jpg", "18.jpg", "19.jpg", "20.jpg"):
        image = cv2.resize(cv2.imread(str(shared_dir / "models/ulfg/images" / name)), (300, 300))
        x = (image.astype(np.float32) - np.float32([104, 177, 123])).transpose(2, 0, 1)[None].copy()
        rows = session.run({"data": x})["detection_out"][0, 0]
        feeds = {"data": x}
        expected = run_opencv(prototxt.read_bytes(), weights.read_bytes(), feeds, {"detection_out": "detection_out"})
        wanted = expected["detection_out"].reshape(-1, 7)
        strong = wanted[wanted[:, 2] > 0.02]
        assert np.allclose(rows[: len(strong)], strong, rtol=0, atol=1e-4)
        total += len(strong)
        beyond += int(np.sum((strong[:, 3:] < 0) | (strong[:, 3:] > 1)))
    assert total >= 20
    assert (beyond == 0) == clipped  # the images have faces that the border cuts


def test_a_digest_tells_files_apart(shared_dir: Path) -> None:
    first, second = files(shared_dir, NETWORKS["det1"]), files(shared_dir, NETWORKS["det2"])
    assert caffe_digest(*first) == caffe_digest(*first)
    assert len({caffe_digest(*first), caffe_digest(*second), caffe_digest(first[0], second[1])}) == 3


def test_tags_by_glob(shared_dir: Path) -> None:
    globs = TagGlobs(hp=("conv5-*",), cpu=("prob1",))
    model = import_caffe(*files(shared_dir, NETWORKS["det2"]), tag_globs=globs).model
    assert model.tags.of("conv5-2").hp
    assert model.tags.of("prob1").cpu
    assert not model.tags.of("conv1").hp
