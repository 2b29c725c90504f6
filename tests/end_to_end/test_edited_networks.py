"""Recipes with edits, from images to a program: several crops of one face, a projection, the two parts of an STN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from small_project import make_build

from nnkit import pipeline
from nnkit.cache import StageCache
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.inputs import calibration_samples

RECIPE = """\
nnkit: 1
name: halves
model:
  path: half.onnx
  inputs:
    left:
      preprocess: {crop: {left: 0, top: 0, width: 32, height: 64}, resize: {size: [32, 16]}, mean: 128}
      calibration: {images: face*.png}
    right:
      preprocess: {crop: {left: 32, top: 0, width: 32, height: 64}, flip: true, resize: {size: [32, 16]}, mean: 128}
      calibration: {images: face*.png}
restructure:
  - merge_components: {components: [{inputs: [left, right]}], output: face}
  - add_pca: {file: pca.npz}
  - fc_to_conv
  - sink_reshape
targets: {gap8: {}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(0, 0.2, (6, 1, 4, 4)), "v": rng.normal(0, 0.1, (12, 6, 15, 7))}
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], name="conv", strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "v"], ["d"], name="last"),
        helper.make_node("Flatten", ["d"], ["feature"], name="flat"),
    ]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 32, 16])],
        [helper.make_tensor_value_info("feature", TensorProto.FLOAT, [1, 12])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "half.onnx"
    )
    for index in range(3):
        half = rng.integers(0, 256, (64, 32), dtype=np.uint8)
        Image.fromarray(np.concatenate([half, half[:, ::-1]], axis=1)).save(tmp_path / f"face{index}.png")
    np.savez(tmp_path / "pca.npz", mean=rng.normal(0, 1, 24), matrix=rng.normal(0, 0.3, (24, 6)))
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    return tmp_path


def test_two_crops_of_one_face_and_a_projection(project: Path) -> None:
    build = make_build(project / "recipe.yaml", StageCache(project / "cache"))
    found = pipeline.preview(build)
    reference, model = found.restructured.reference, found.restructured.model
    assert [spec.name for spec in reference.inputs] == ["left", "right"]
    assert found.program.outputs == ("pca",)
    assert found.calibrated
    # The faces are symmetric and the right half is mirrored: both crops are the same picture.
    samples = calibration_samples(build.recipe, model, 16)
    assert len(samples) == 3
    pca = np.load(project / "pca.npz")
    half = FloatSession(found.imported.model)
    for sample in samples:
        np.testing.assert_array_equal(sample.inputs["left"], sample.inputs["right"])
        feature = half.run({"image": sample.inputs["left"]})["feature"][0].astype(np.float64)
        wanted = (np.concatenate([feature, feature]) - pca["mean"]) @ pca["matrix"]
        got = FloatSession(model).run(sample.inputs)["pca"]
        np.testing.assert_allclose(got[0], wanted, rtol=0, atol=1e-4)


def test_another_pca_file_is_not_taken_from_the_cache(project: Path) -> None:
    cache = StageCache(project / "cache")
    first = pipeline.preview(make_build(project / "recipe.yaml", cache)).restructured.model.digest
    assert pipeline.preview(make_build(project / "recipe.yaml", cache)).restructured.model.digest == first
    np.savez(project / "pca.npz", mean=np.zeros(24), matrix=np.eye(24)[:, :6])
    assert pipeline.preview(make_build(project / "recipe.yaml", cache)).restructured.model.digest != first
