"""Four components of both halves of a face, eight inputs of one recipe, from `nnkit run` to the emitted Caffe pair.

Component 0 is cut out with 112 x 112 pixels and resized to 96 x 96; components 0 (the recipe's own network) and 1 are
ONNX, 2 and 3 Caffe. Every truth is made by Pillow, ONNX Runtime and OpenCV, from the files of the components.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageOps

from benchmarks.caffe_corpus import caffemodel, layer
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import import_onnx

from .conftest import Command, report_of

FEATURE = 12


@dataclass(frozen=True)
class Component:
    """Where it lies in a half of 112 x 112 pixels (left, top, width, height), and the side of its network's input."""

    box: tuple[int, int, int, int]
    side: int


COMPONENTS = (
    Component((0, 0, 112, 112), 96),
    Component((16, 24, 64, 64), 32),
    Component((30, 40, 48, 48), 24),
    Component((20, 60, 48, 48), 24),
)
INPUTS = [f"comp{index}_{flip}" for index in range(4) for flip in (0, 1)]


def input_yaml(name: str, mirrored: bool) -> str:
    index, flip = int(name[4]), int(name[6])
    left, top, width, height = COMPONENTS[index].box
    if flip:  # the same place of the other half, seen from outside: from its right edge
        left = 224 - left - width
    side = COMPONENTS[index].side
    crop = f"{{left: {left}, top: {top}, width: {width}, height: {height}}}"
    return (
        f"    {name}:\n      preprocess: {{color: gray, crop: {crop}, flip: {str(bool(flip and mirrored)).lower()}, "
        f"resize: {{size: [{side}, {side}]}}, mean: 128}}\n      calibration: {{images: calibration/{name}/*.png}}\n"
    )


def recipe(mirrored: bool) -> str:
    return (
        "nnkit: 1\nname: faces\nmodel:\n  path: component0.onnx\n  inputs:\n"
        + "".join(input_yaml(name, mirrored) for name in INPUTS)
        + """restructure:
  - merge_components:
      components:
        - {inputs: [comp0_0, comp0_1]}
        - {model: component1.onnx, inputs: [comp1_0, comp1_1]}
        - {model: component2.prototxt, weights: component2.caffemodel, inputs: [comp2_0, comp2_1]}
        - {model: component3.prototxt, weights: component3.caffemodel, inputs: [comp3_0, comp3_1]}
  - nonfinal_fc_to_conv
  - norm_from_concat: {reduce: mean}
  - add_pca: {file: pca.npz, hp: true}
targets: {nnie: {chip: hi3516dv300, compile_mode: 2, image_count: 2}}
"""
    )


def onnx_component(path: Path, side: int, seed: int) -> None:
    """Convolution, ReLU, average of the map, add-1 normalisation."""
    random = np.random.default_rng(seed)
    arrays = {"w": random.normal(0, 0.02, (FEATURE, 1, 8, 8)), "one": np.array(1.0)}
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], name="conv", strides=[8, 8]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["fc"], name="flat"),
        helper.make_node("ReduceSumSquare", ["fc"], ["total"], axes=[1], keepdims=1),
        helper.make_node("Add", ["total", "one"], ["added"]),
        helper.make_node("Sqrt", ["added"], ["length"]),
        helper.make_node("Div", ["fc", "length"], ["feature"], name="a1norm"),
    ]
    graph = helper.make_graph(
        nodes,
        "component",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, side, side])],
        [helper.make_tensor_value_info("feature", TensorProto.FLOAT, [1, FEATURE])],
        [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in arrays.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def caffe_component(folder: Path, stem: str, side: int, seed: int) -> None:
    """Convolution, BatchNorm and Scale in place, ReLU, InnerProduct."""
    random = np.random.default_rng(seed)
    text = (
        f'name: "{stem}"\ninput: "data"\ninput_dim: 1\ninput_dim: 1\ninput_dim: {side}\ninput_dim: {side}\n'
        + layer("Convolution", "convolution_param { num_output: 6 kernel_size: 8 stride: 8 }", tops="c", name="conv")
        + layer("BatchNorm", bottoms="c", tops="c", name="bn")
        + layer("Scale", "scale_param { bias_term: true }", bottoms="c", tops="c", name="scale")
        + layer("ReLU", bottoms="c", tops="c", name="relu")
        + layer("InnerProduct", f"inner_product_param {{ num_output: {FEATURE} }}", bottoms="c", tops="f", name="fc")
    )
    cells = (side // 8) ** 2
    shapes = {"conv": [(6, 1, 8, 8), (6,)], "scale": [(6,), (6,)], "fc": [(FEATURE, 6 * cells), (FEATURE,)]}
    arrays = {name: [random.normal(0, 0.1, shape).astype(np.float32) for shape in s] for name, s in shapes.items()}
    arrays["bn"] = [np.zeros(6, np.float32), np.full(6, 9.0, np.float32), np.float32([1.0])]
    (folder / f"{stem}.prototxt").write_text(text, encoding="utf-8")
    (folder / f"{stem}.caffemodel").write_bytes(caffemodel(arrays))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Components, projection, and for every input a calibration set of its own: two faces of sixteen."""
    folder = tmp_path_factory.mktemp("faces")
    for index in (0, 1):
        onnx_component(folder / f"component{index}.onnx", COMPONENTS[index].side, index)
    for index in (2, 3):
        caffe_component(folder, f"component{index}", COMPONENTS[index].side, index)
    random = np.random.default_rng(9)
    for position, name in enumerate(INPUTS):
        (folder / "calibration" / name).mkdir(parents=True)
        for number in (2 * position, 2 * position + 1):
            small = random.integers(0, 256, (14, 28), dtype=np.uint8)
            face = Image.fromarray(small).resize((224, 112), Image.Resampling.BICUBIC)
            face.save(folder / "calibration" / name / f"face{number}.png")
    np.savez(
        folder / "pca.npz", mean=random.normal(0, 0.1, 96), matrix=np.linalg.qr(random.normal(0, 1, (96, 96)))[0]
    )
    return folder


def cut(face: Image.Image, name: str, mirrored: bool) -> NDArray[np.float32]:
    """The input that the component was trained on, [1, 1, side, side]: out of the half, mirrored or not."""
    index, flip = int(name[4]), int(name[6])
    left, top, width, height = COMPONENTS[index].box
    half = face.crop((0, 0, 112, 112)) if not flip else face.crop((112, 0, 224, 112))
    if flip and mirrored:
        part = ImageOps.mirror(half).crop((left, top, left + width, top + height))
    elif flip:
        part = half.crop((112 - left - width, top, 112 - left, top + height))
    else:
        part = half.crop((left, top, left + width, top + height))
    side = COMPONENTS[index].side
    pixels = np.asarray(part.resize((side, side), Image.Resampling.BILINEAR), np.float32)
    return (pixels - 128.0)[None, None]


def features(project: Path, inputs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float64]:
    """All components on their inputs, concatenated, by ONNX Runtime and OpenCV."""
    found = []
    for name in INPUTS:
        stem = project / f"component{name[4]}"
        if stem.with_suffix(".onnx").exists():
            session = onnxruntime.InferenceSession(stem.with_suffix(".onnx"), providers=["CPUExecutionProvider"])
            found.append(session.run(None, {"image": inputs[name]})[0])
        else:
            net = cv2.dnn.readNetFromCaffe(str(stem.with_suffix(".prototxt")), str(stem.with_suffix(".caffemodel")))
            net.setInput(inputs[name])
            found.append(net.forward())
    return np.concatenate(found, axis=1).astype(np.float64)


@pytest.mark.parametrize("mirrored", [True, False], ids=["right half mirrored", "as it is"])
def test_eight_inputs_of_one_recipe(nnkit: Command, project: Path, mirrored: bool) -> None:
    (project / "recipe.yaml").write_text(recipe(mirrored), encoding="utf-8")
    done = nnkit("run", "recipe.yaml", "--out", f"out{int(mirrored)}", cwd=project)
    assert done.code == 0, done.err
    folder = project / f"out{int(mirrored)}" / "faces" / "nnie"
    report = report_of(folder)
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["cosine"] > 0.99
    emitted = report["verify"]["program_vs_artifact"][0]
    assert emitted["values"] > 0
    assert emitted["mismatches"] == 0

    restructured = import_onnx(folder / "restructured.onnx").model
    assert [spec.name for spec in restructured.inputs] == INPUTS
    pca = np.load(project / "pca.npz")
    face = Image.open(project / "calibration" / "comp3_1" / "face15.png")
    inputs = {name: cut(face, name, mirrored) for name in INPUTS}
    # The preprocessing of the recipe is the chip's mean and the artifact's pictures; the network gets both.
    fed = {spec.name: inputs[spec.name] for spec in restructured.inputs}
    wanted = (features(project, inputs) - pca["mean"]) @ pca["matrix"]
    found = next(iter(FloatSession(restructured).run(fed).values())).reshape(1, -1)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())

    # Every input has a group of its own in the cfg, in the order of the prototxt, with its own two pictures.
    artifact = folder / "artifact"
    settings = (artifact / "faces.cfg").read_text(encoding="utf-8").splitlines()
    lists = [line.split()[1] for line in settings if line.startswith("[image_list]")]
    assert [Path(each).name for each in lists] == [f"images_{name}.txt" for name in INPUTS]
    for position, name in enumerate(INPUTS):
        pictures = (artifact / f"images_{name}.txt").read_text(encoding="utf-8").split()
        assert len(pictures) == 2
        for number, picture in zip((2 * position, 2 * position + 1), pictures, strict=True):
            source = Image.open(project / "calibration" / name / f"face{number}.png")
            stored = np.asarray(Image.open(artifact / picture).convert("L"), np.float32)
            np.testing.assert_array_equal(stored - 128.0, cut(source, name, mirrored)[0, 0])
    order = (artifact / "faces.prototxt").read_text(encoding="utf-8").split('type: "Input"')
    assert [part.rpartition('name: "')[2].split('"')[0] for part in order[:-1]] == INPUTS
