"""The three NNIE recipes from end to end: stages, emitted pairs in OpenCV, and the algebra of their projections.

The recipes correct no weights, but for the last test: corrected ones make the emitted pair another network than the
float one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from small_project import make_build

from nnkit import pipeline
from nnkit.builds import BuiltFolder, open_build
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import import_onnx
from nnkit.inputs import preprocess_by_input
from nnkit.postprocess import combine_halves
from nnkit.preprocess import preprocess_image
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit.stages import Build

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
FACES = RECIPES / "nnie_faces" / "held_out"
_PICTURES = 18  # of 36, two of some people: enough for what is asked here, which is no figure of recognition


@dataclass(frozen=True, eq=False)
class Built:
    """A recipe's build, read back, and its float networks."""

    build: Build
    folder: BuiltFolder
    original: FloatSession
    restructured: FloatSession

    @property
    def artifact(self) -> Path:
        return self.folder.folder / "artifact"

    def inputs(self, face: Image.Image) -> dict[str, np.ndarray]:
        """As the recipe preprocesses it."""
        model = import_onnx(self.folder.folder / "restructured.onnx").model
        given = preprocess_by_input(self.build.recipe, model)
        return {spec.name: preprocess_image(face, given[spec.name], spec.shape) for spec in model.inputs}


def built(name: str, out: Path, *, corrected: bool = False) -> Built:
    build = make_build(RECIPES / name / "recipe.yaml", target="nnie")
    recipe = build.recipe
    changes: dict[str, Any] = {"verify": recipe.verify.model_copy(update={"count": _PICTURES})}
    if corrected:
        changes["calibration"] = recipe.calibration.model_copy(update={"corrections": None})
    build = replace(build, recipe=recipe.model_copy(update=changes))
    done = pipeline.run(build, out)
    assert done.status == "ok"
    fetch = ["stn_matrix_out", "warp_out"] if name == "nnie_cv500_stn" else []
    restructured = import_onnx(done.folder / "restructured.onnx").model
    outputs = [spec.name for spec in restructured.outputs]
    original = FloatSession(import_onnx(RECIPES / name / "face.onnx").model)
    return Built(build, open_build(done.folder), original, FloatSession(restructured, fetch=[*fetch, *outputs]))


@pytest.fixture(scope="module")
def stn(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built("nnie_cv500_stn", tmp_path_factory.mktemp("stn"))


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built("nnie_dv300_nostn", tmp_path_factory.mktemp("half"))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built("nnie_3559a_pca_combine", tmp_path_factory.mktemp("full"))


def faces(count: int) -> list[Image.Image]:
    return [Image.open(path) for path in sorted(FACES.glob("*/*.pgm"))[:count]]


def halves(face: Image.Image) -> list[Image.Image]:
    """The face, whose left half the crops see, and its mirror image, whose left half is the right one."""
    return [face, face.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]


def pca_of(name: str) -> Mapping[str, np.ndarray]:
    stored = np.load(RECIPES / name / "pca.npz")
    return {key: stored[key].astype(np.float64) for key in ("mean", "matrix")}


def opencv(folder: Path, stem: str, values: int) -> cv2.dnn.Net:
    """The pair in OpenCV, which has no Reduction: the mean of a row is an average pooling as wide as the row."""
    text = (folder / f"{stem}.prototxt").read_text()
    pooling = f"pooling_param {{\n    pool: AVE\n    kernel_h: 1\n    kernel_w: {values}\n  }}"
    text, count = re.subn(r"reduction_param \{[^}]*operation: MEAN[^}]*axis: 3\s*\}", pooling, text)
    assert count == text.count('type: "Reduction"')
    text = text.replace('type: "Reduction"', 'type: "Pooling"')
    weights = np.frombuffer((folder / f"{stem}.caffemodel").read_bytes(), np.uint8)
    return cv2.dnn.readNetFromCaffe(np.frombuffer(text.encode(), np.uint8), weights)


def assert_close(found: np.ndarray, wanted: np.ndarray, relative: float = 1e-4) -> None:
    np.testing.assert_allclose(found.ravel(), wanted.ravel(), rtol=0, atol=relative * np.abs(wanted).max())


def stages_of(found: Built) -> list[tuple[str, Any]]:
    return [(each["runs_on"], each.get("what")) for each in found.folder.report["details"]["segments"]]


def test_stages_tags_and_verdicts(stn: Built, half: Built, full: Built):
    assert stages_of(stn) == [("nnie", "stn"), ("cpu", "stn, warp"), ("nnie", "net")]
    assert stages_of(half) == stages_of(full) == [("nnie", None)]
    for found, prototxt in (
        (stn, "net/nnie_cv500_net.prototxt"),
        (half, "nnie_dv300.prototxt"),
        (full, "nnie_3559a.prototxt"),
    ):
        report = found.folder.report
        assert 'name: "pca_hp"' in (found.artifact / prototxt).read_text()
        verdicts = {entry["how"]: entry for entry in report["verify"]["program_vs_artifact"]}
        assert verdicts["caffe"]["mismatches"] == 0
        assert verdicts["caffe"]["values"] > 10_000
        assert "never compiled" in verdicts["mapper"]["reason"]
        choices = [row["choice"] for row in report["details"]["precision"]]
        usual = ["no_hp", "lastfc_hp", "fullfc_hp", "firstconv_hp", "all"]
        assert choices == (usual if found is not stn else [*usual, "as_built"])
        assert report["details"]["precision"][1]["layers"] == ["pca"]
    for found in (stn, half):  # what the seed's table has
        for row in found.folder.report["details"]["precision"]:
            names = {metric["name"] for metric in row["task"]}
            assert {"recall", "false_positives_at_float_threshold"} <= names
    assert {path.name for path in (full.artifact / "postprocess").glob("*combine*")} == {
        "nnkit_pca_combine.c",
        "nnkit_pca_combine.h",
    }


def test_inputs_of_the_four_components(half: Built):
    keys = (half.artifact / "nnie_dv300.cfg").read_text().split()
    lists = [keys[i + 1] for i, key in enumerate(keys) if key == "[image_list]"]
    assert lists == [f"./images_{name}.txt" for name in ("half", "eye", "nose", "mouth")]
    first = Image.open(half.artifact / "images" / "eye" / "0000.png")
    source = Image.open(sorted((RECIPES / "nnie_faces" / "calibration").glob("*.pgm"))[0])
    wanted = source.crop((4, 26, 54, 66)).resize((60, 48), Image.Resampling.BILINEAR)
    assert np.array_equal(np.asarray(first), np.asarray(wanted))


def test_opencv_runs_stn_and_net(stn: Built):
    first = opencv(stn.artifact / "stn", "nnie_cv500_stn", 0)
    second = opencv(stn.artifact / "net", "nnie_cv500_net", 192)
    table = pca_of("nnie_cv500_stn")
    for face in faces(3):
        given = stn.inputs(face)
        wanted = stn.restructured.run(given)
        first.setInput(given["face"])
        assert_close(first.forward(), wanted["stn_matrix_out"])
        second.setInput(wanted["warp_out"])
        assert_close(second.forward(), wanted["pca"])
        descriptor = stn.original.run(given)["descriptor"][0].astype(np.float64)
        assert_close(wanted["pca"], (descriptor - table["mean"]) @ table["matrix"], 2e-5)


def test_opencv_runs_the_half_face_networks(half: Built, full: Built):
    for found, stem in ((half, "nnie_dv300"), (full, "nnie_3559a")):
        network = opencv(found.artifact, stem, 256)
        for side in halves(faces(1)[0]):
            given = found.inputs(side)
            for name, values in given.items():
                network.setInput(values, name)
            assert_close(network.forward(), found.restructured.run(given)["pca"])


def test_the_half_face_projection(half: Built):
    table = pca_of("nnie_dv300_nostn")
    for side in halves(faces(1)[0]):
        given = half.inputs(side)
        descriptor = half.original.run(given)["descriptor"][0].astype(np.float64)
        wanted = (descriptor - table["mean"]) @ table["matrix"]
        assert_close(half.restructured.run(given)["pca"], wanted, 2e-5)


def test_two_halves_combined_are_the_full_face_projected_and_rescaled(full: Built):
    table = pca_of("nnie_3559a_pca_combine")
    components = table["matrix"].shape[1]
    random = np.random.default_rng(0)
    shapes = {name: values.shape for name, values in full.inputs(faces(1)[0]).items()}
    noise = [{n: random.uniform(0, 255, s).astype(np.float32) for n, s in shapes.items()} for _ in range(4)]
    real = [full.inputs(side) for face in faces(3) for side in halves(face)]
    for left, right in zip([*noise[::2], *real[::2]], [*noise[1::2], *real[1::2]], strict=True):
        shares = [full.restructured.run(side)["pca"].ravel() for side in (left, right)]
        found = combine_halves(*shares, components)
        both = np.concatenate([full.original.run(side)["descriptor"][0] for side in (left, right)]).astype(np.float64)
        centred = both - table["mean"]
        projected = centred @ table["matrix"]
        wanted = projected / np.linalg.norm(projected) * np.linalg.norm(centred)
        assert_close(found, wanted, 2e-5)


def test_simulated_halves_combined_are_near(full: Built):
    table = pca_of("nnie_3559a_pca_combine")
    program = full.folder.program
    for face in faces(2):
        sides = [full.inputs(side) for side in halves(face)]
        stored = [simulate(program, quantized_inputs(program, Sample("", side)))["pca"].ravel() for side in sides]
        found = combine_halves(*(values / 4096.0 for values in stored), table["matrix"].shape[1])
        exact = [full.restructured.run(side)["pca"].ravel() for side in sides]
        wanted = combine_halves(*exact, table["matrix"].shape[1])
        assert found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted) > 0.97


def test_corrected_weights_bring_the_simulation_nearer_to_float(half: Built, tmp_path: Path):
    """As by default. The pair in OpenCV is the corrected network: near the float one, and not equal to it."""
    corrected = built("nnie_dv300_nostn", tmp_path, corrected=True)
    plain, found = (each.folder.report for each in (half, corrected))
    assert len([note for note in found["quantization_notes"] if " kept: " in note]) >= 1
    gain = found["verify"]["float_vs_program"]["sqnr_db"] - plain["verify"]["float_vs_program"]["sqnr_db"]
    assert gain > 2
    *others, own = found["details"]["precision"]
    assert others == plain["details"]["precision"]
    assert own["choice"] == "as_built"
    network = opencv(corrected.artifact, "nnie_dv300", 256)
    given = corrected.inputs(faces(1)[0])
    for name, values in given.items():
        network.setInput(values, name)
    ours, exact = network.forward().ravel(), half.restructured.run(given)["pca"].ravel()
    assert 1e-4 < np.abs(ours - exact).max() / np.abs(exact).max() < 0.1
