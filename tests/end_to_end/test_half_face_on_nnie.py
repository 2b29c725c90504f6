"""A full-face network becomes a half-face one for NNIE: simulated halves, combined, are the full descriptor."""

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
from nnkit.importers import import_onnx
from nnkit.postprocess import PcaCombine, combine_stored
from nnkit.program import Fixed
from nnkit.serialize import decode
from nnkit.simulate import simulate
from nnkit.target import load_target

FEATURES, COMPONENTS = 24, 10

RECIPE = """\
nnkit: 1
name: half
model:
  path: full.onnx
  inputs:
    left:
      preprocess: {color: gray}
      calibration: {images: half*.png}
restructure:
  - replace_input: {input: left}
  - fc_to_conv
  - sink_reshape
  - collapse_reshape
  - norm_from_concat: {reduce: mean}
  - split_full_face_pca: {file: pca.npz}
postprocess: [{kind: pca_combine, components: 10}]
targets: {nnie: {chip: hi3516dv300, compile_mode: 1}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.normal(0, 0.02, (8, 1, 5, 5)),
        "w2": rng.normal(0, 0.08, (16, 8, 10, 10)),
        "w3": rng.normal(0, 0.3, (16, FEATURES)),
        "one": np.array(1.0),
    }
    constants = [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in weights.items()]
    constants.append(numpy_helper.from_array(np.array([1, 2 * FEATURES]), "shape"))
    nodes = [
        helper.make_node("Concat", ["left", "right"], ["both"], name="halves", axis=0),
        helper.make_node("Conv", ["both", "w1"], ["c1"], name="conv1", strides=[3, 3]),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], name="conv2"),
        helper.make_node("Relu", ["c2"], ["r2"], name="relu2"),
        helper.make_node("Flatten", ["r2"], ["flat"], name="flat"),
        helper.make_node("MatMul", ["flat", "w3"], ["fc"], name="fc"),
        helper.make_node("ReduceSumSquare", ["fc"], ["total"], axes=[1], keepdims=1),
        helper.make_node("Add", ["total", "one"], ["added"]),
        helper.make_node("Sqrt", ["added"], ["length"]),
        helper.make_node("Div", ["fc", "length"], ["norm"], name="a1norm"),
        helper.make_node("Reshape", ["norm", "shape"], ["face"], name="face"),
    ]
    graph = helper.make_graph(
        nodes,
        "full",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 32, 32]) for name in ("left", "right")],
        [helper.make_tensor_value_info("face", TensorProto.FLOAT, [1, 2 * FEATURES])],
        constants,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "full.onnx"
    )
    for index in range(4):
        face = rng.integers(0, 256, (32, 64), dtype=np.uint8)
        Image.fromarray(face).save(tmp_path / f"face{index}.png")
        for side, half in (("left", face[:, :32]), ("right", face[:, 32:])):
            Image.fromarray(half).save(tmp_path / f"half{index}_{side}.png")
    matrix = np.linalg.qr(rng.normal(0, 1, (2 * FEATURES, 2 * FEATURES)))[0][:, :COMPONENTS]
    np.savez(tmp_path / "pca.npz", mean=rng.normal(0, 0.1, 2 * FEATURES), matrix=matrix)
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    return tmp_path


def test_simulated_halves_combined(project: Path) -> None:
    build = make_build(project / "recipe.yaml", StageCache(project / "cache"), target="nnie")
    done = pipeline.run(build, project / "out")
    assert done.status == "ok"
    names = {path.name for path in (done.folder / "artifact" / "postprocess").iterdir()}
    assert names >= {"nnkit_pca_combine.c", "nnkit_pca_combine.h", "nnkit_postprocess_config.h"}
    effects = {entry["name"]: entry.get("effect", "") for entry in done.report["rewrites"]}  # type: ignore[attr-defined]
    assert "because 'face' brings the images together" in effects["replace_input"]

    program = decode((done.folder / "program.nnkit").read_bytes(), load_target("nnie").program_classes())
    params = PcaCombine(FEATURES, COMPONENTS, Fixed(32, 12))
    full = FloatSession(import_onnx(project / "full.onnx").model)
    pca = np.load(project / "pca.npz")
    for index in range(4):
        pixels = np.asarray(Image.open(project / f"face{index}.png"))
        halves = {"left": pixels[None, :, :32], "right": pixels[None, :, 32:]}
        stored = [simulate(program, {"left": half})["pca"].reshape(-1) for half in halves.values()]
        found = combine_stored(params, *stored)
        face = full.run({name: half[None].astype(np.float32) for name, half in halves.items()})["face"][0]
        centred = face.astype(np.float64) - pca["mean"]
        projected = centred @ pca["matrix"]
        wanted = projected / np.linalg.norm(projected) * np.linalg.norm(centred)
        cosine = found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted)
        assert cosine > 0.999
        assert abs(np.linalg.norm(found) / np.linalg.norm(wanted) - 1) < 0.01
