"""A detector and a descriptor of few layers with random weights, whose boxes lie anywhere, in one deployment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from nnkit.api.deploying import load_deployment_recipe
from nnkit.deployed import Deployed
from nnkit.deployment import (
    DeploymentBuild,
    DeploymentOutcome,
    deployment_build,
    plan_deployment,
    run_deployment,
)
from nnkit.report.progress import Progress

RECIPE = """\
nnkit: 1
name: tiny
deployment:
  networks:
    finder: {recipe: finder.yaml}
    describer: {recipe: describer.yaml, target: gap8@small}
  pipeline:
    kind: face_match
    detector: finder
    descriptor: describer
    frame: [48, 64]
    faces: 3
    name_bytes: 8
    verify:
      enrol: {ada: images/0.png, "Bj\\u00f6rn": images/1.png}
      frames: images/*.png
targets:
  gap8: {memory: {l2: 64KiB}, cores: 3}
release: {version: 1.0.0}
"""
FINDER = """\
nnkit: 1
name: some_finder
model:
  path: finder.onnx
  inputs:
    image:
      shape: [1, 1, 24, 32]
      preprocess: {color: gray, resize: {size: [24, 32]}}
      calibration: {images: images/*.png}
targets: {gap8: {precision: int16}}
postprocess:
  - {kind: ssd, location: location, confidence: face, image: [24, 32], background: null, confidence_threshold: 0.5,
     nms_threshold: 0.9, top_k: 40, keep_top_k: 6, priors: [{map: [6, 8], min_size: [9]}]}
verify: {images: images/*.png}
"""
DESCRIBER = """\
nnkit: 1
name: some_describer
model:
  path: describer.onnx
  inputs:
    face:
      shape: [1, 1, 16, 16]
      preprocess: {color: gray, resize: {size: [16, 16]}}
      calibration: {images: images/*.png}
targets: {gap8: {precision: int16}, gap8@small: {precision: int8}}
postprocess:
  - {kind: face_crop, size: [16, 16], border: fill, fill: 9}
  - {kind: match, threshold: 0.3, capacity: 3, normalize: true}
verify: {images: images/*.png}
"""


@dataclass(frozen=True)
class Project:
    """recipe: of the deployment. build, outcome: of a run of it, in `out`."""

    recipe: Path
    build: DeploymentBuild
    outcome: DeploymentOutcome


def write_networks(folder: Path, *, wide: bool = False) -> None:
    """`finder.onnx`, `describer.onnx` (maybe with a wide first layer), their recipes, and four pictures."""
    rng = np.random.default_rng(5)
    weights = {
        "a": rng.normal(0, 0.02, (6, 1, 3, 3)),
        "b": rng.normal(0, 0.4, (8, 6, 3, 3)),
        "box": rng.normal(0, 1.2, (4, 8, 3, 3)),
        "score": rng.normal(0, 0.5, (1, 8, 3, 3)),
        "c": rng.normal(0, 0.03, (6, 1, 3, 3)),
        "d": rng.normal(0, 0.3, (10, 6, 16, 16)),
    }
    if wide:
        weights |= {"wide": rng.normal(0, 0.03, (24, 1, 3, 3)), "c": rng.normal(0, 0.2, (6, 24, 3, 3))}
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    shapes = {"four": [1, -1, 4], "one": [1, -1, 1], "flat": [1, 10]}
    constants += [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in shapes.items()]

    def conv(value: str, name: str, result: str, stride: int = 1, pad: int = 1) -> onnx.NodeProto:
        return helper.make_node(
            "Conv", [value, name], [result], name=f"conv_{name}", pads=[pad] * 4, strides=[stride] * 2
        )

    finder = [
        conv("image", "a", "a_", 2),
        helper.make_node("Relu", ["a_"], ["a__"]),
        conv("a__", "b", "b_", 2),
        helper.make_node("Relu", ["b_"], ["b__"]),
    ]
    for name, shape, result in (("box", "four", "location"), ("score", "one", "logits")):
        finder.append(conv("b__", name, f"{name}_"))
        finder.append(helper.make_node("Transpose", [f"{name}_"], [f"{name}__"], perm=[0, 2, 3, 1]))
        finder.append(helper.make_node("Reshape", [f"{name}__", shape], [result], name=result))
    finder.append(helper.make_node("Sigmoid", ["logits"], ["face"], name="face"))
    describer = [
        *([conv("face", "wide", "wide_")] if wide else []),
        conv("wide_" if wide else "face", "c", "c_"),
        helper.make_node("Relu", ["c_"], ["c__"]),
        conv("c__", "d", "d_", pad=0),
        helper.make_node("Reshape", ["d_", "flat"], ["description"], name="description"),
    ]
    _save(
        folder / "finder.onnx",
        finder,
        constants,
        ("image", [1, 1, 24, 32]),
        {"location": [1, 48, 4], "face": [1, 48, 1]},
    )
    _save(folder / "describer.onnx", describer, constants, ("face", [1, 1, 16, 16]), {"description": [1, 10]})
    (folder / "images").mkdir()
    for index in range(4):
        Image.fromarray(rng.integers(0, 256, (48, 64)).astype(np.uint8)).save(folder / f"images/{index}.png")
    (folder / "finder.yaml").write_text(FINDER)
    (folder / "describer.yaml").write_text(DESCRIBER)


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    constants: list[onnx.TensorProto],
    given: tuple[str, list[int]],
    results: dict[str, list[int]],
) -> None:
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info(given[0], TensorProto.FLOAT, given[1])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in results.items()],
        [constant for constant in constants if constant.name in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def build_of(recipe: Path, *, emulate: bool = False) -> DeploymentBuild:
    """A build that writes its progress nowhere and uses no cache."""
    return deployment_build(load_deployment_recipe(recipe), Progress(quiet=True), cache=False, emulate=emulate)


@pytest.fixture(scope="package")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny deployment, built once with all runners."""
    folder = tmp_path_factory.mktemp("deployment")
    write_networks(folder)
    (folder / "recipe.yaml").write_text(RECIPE)
    build = build_of(folder / "recipe.yaml", emulate=True)
    return Project(folder / "recipe.yaml", build, run_deployment(build, folder / "out"))


@pytest.fixture(scope="package")
def deployed(project: Project) -> Deployed:
    """Its programs, stages and joint plan."""
    return plan_deployment(build_of(project.recipe)).deployed
