"""Silence is broken where a build's figures may mean nothing: each case made by a mistake, and gone without it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from PIL import Image
from small_project import RECIPE, write_project

import nnkit
from nnkit.report import doubts as report_doubts
from nnkit.verify.tasks.verification import verify_pairs

CLASSES = 24
LABELLED = RECIPE.replace("verify: {", "verify: {images: held/*.png, task: {TASK}, ")


def doubts(folder: Path, **settings: object) -> list[str]:
    (result,) = nnkit.run(
        folder / "recipe.yaml",
        out=folder / "out",
        settings={"verify.gates": {}, **settings},
        switches=nnkit.Switches(emulate=False, cache=False),
    )
    return list(result.report["doubts"])


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Twelve held-out pictures with the float network's own answers as labels."""
    task = "kind: classification, labels: labels.csv"
    write_project(tmp_path, LABELLED.replace("TASK", task))
    (tmp_path / "held").mkdir()
    for index in range(12):
        pixels = np.random.default_rng(100 + index).integers(0, 40 + 20 * index, (40, 40)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"held/{index}.png")
    return tmp_path


def write_labels(folder: Path, step: int, *, wrong: bool = False) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "net.onnx"))
    name = session.get_inputs()[0].name
    lines = []
    for index in range(12):
        pixels = np.asarray(Image.open(folder / f"held/{index}.png"), np.float32).reshape(1, 1, 40, 40)
        answer = int(np.argmax(session.run(None, {name: pixels})[0]))
        lines.append(f"{index}.png,{(answer + 7) % CLASSES if wrong else answer + step}\n")
    (folder / "labels.csv").write_text("".join(lines))


def test_labels_that_are_one_off_are_told(labelled: Path) -> None:
    write_labels(labelled, 0)
    assert doubts(labelled) == []
    write_labels(labelled, 1)
    (told,) = doubts(labelled)
    assert "labels seem one higher" in told
    assert "right on 0, and would be on 12" in told


def test_a_float_network_that_guesses_is_told(labelled: Path) -> None:
    write_labels(labelled, 0, wrong=True)
    (told,) = doubts(labelled)
    assert told.startswith("the float network itself is right on 0 of 12 images")


def test_calibration_on_one_input_is_told(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert doubts(tmp_path) == []
    (told,) = doubts(tmp_path, **{"model.inputs.x.calibration.count": 1})
    assert told.startswith("calibrated on one input")


def test_an_input_on_another_scale_is_told(tmp_path: Path) -> None:
    """The same network with a first layer for inputs of about 1: its filters have length 1."""
    write_project(tmp_path)
    model = onnx.load(tmp_path / "net.onnx")
    first = next(node for node in model.graph.node if node.op_type == "Conv")
    weights = next(tensor for tensor in model.graph.initializer if tensor.name == first.input[1])
    kernel = numpy_helper.to_array(weights)
    length = np.linalg.norm(kernel.reshape(len(kernel), -1), axis=1).reshape(-1, 1, 1, 1)
    weights.CopyFrom(numpy_helper.from_array((kernel / length).astype(np.float32), weights.name))
    onnx.save(model, tmp_path / "net.onnx")
    (told,) = doubts(tmp_path)
    assert "scale: 1/255" in told
    assert doubts(tmp_path, **{"model.inputs.x.preprocess.scale": "1/255"}) == []  # the remedy
    assert doubts(tmp_path, **{"model.inputs.x.preprocess.preset": "minus_one_to_one"}) == []


def test_pixels_that_are_normalised_twice_are_told(tmp_path: Path) -> None:
    write_project(tmp_path)
    model = onnx.load(tmp_path / "net.onnx")
    first = next(node for node in model.graph.node if "x" in node.input)
    first.input[list(first.input).index("x")] = "scaled"
    model.graph.initializer.append(numpy_helper.from_array(np.array(1 / 255, np.float32), "factor"))
    model.graph.node.insert(0, onnx.helper.make_node("Mul", ["x", "factor"], ["scaled"], name="normalise"))
    onnx.save(model, tmp_path / "net.onnx")
    assert doubts(tmp_path) == []
    told = doubts(tmp_path, **{"model.inputs.x.preprocess.scale": "1/255"})
    assert any("divides it once more" in each for each in told)
    assert any("is constant over all" in each for each in told)  # 8 bits do not see what is left of the input


def test_a_network_that_divides_behind_a_cast_is_told_of_as_well(tmp_path: Path) -> None:
    write_project(tmp_path)
    model = onnx.load(tmp_path / "net.onnx")
    first = next(node for node in model.graph.node if "x" in node.input)
    first.input[list(first.input).index("x")] = "scaled"
    model.graph.initializer.append(numpy_helper.from_array(np.array(255, np.float32), "most"))
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["x"], ["floats"], name="cast", to=1))
    model.graph.node.insert(1, onnx.helper.make_node("Div", ["floats", "most"], ["scaled"], name="normalise"))
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    onnx.save(model, tmp_path / "net.onnx")
    assert doubts(tmp_path) == []
    told = doubts(tmp_path, **{"model.inputs.x.preprocess.scale": "1/255"})
    assert any("divides it once more" in each for each in told)


def test_arrays_on_another_scale_than_pixels_become_are_told(tmp_path: Path) -> None:
    write_project(tmp_path)
    for index in range(3):
        pixels = np.random.default_rng(index).integers(0, 256, (1, 1, 40, 40)).astype(np.float32)
        np.save(tmp_path / f"raw{index}.npy", pixels)
        np.save(tmp_path / f"unit{index}.npy", pixels / 255)
    images = "model.inputs.x.calibration.images"
    assert doubts(tmp_path, **{images: str(tmp_path / "raw*.npy")}) == []
    (told,) = doubts(tmp_path, **{images: str(tmp_path / "unit*.npy")})
    assert told.startswith(
        "input 'x' was calibrated on arrays from 0 to 1, and its preprocess makes 0 to 255 of pixels"
    )
    scaled = {"model.inputs.x.preprocess.scale": "1/255"}
    assert not any(
        "arrays" in each for each in doubts(tmp_path, **{images: str(tmp_path / "unit*.npy")}, **scaled)
    )  # the remedy
    assert any(
        "arrays from 0 to 255" in each for each in doubts(tmp_path, **{images: str(tmp_path / "raw*.npy")}, **scaled)
    )


def pairs_doubted(same: int, different: int, accuracy: float) -> bool:
    score = {
        "kind": "verification",
        "metrics": [{"name": "verification_accuracy", "float": accuracy}],
        "facts": {"same_pairs": same, "different_pairs": different},
    }
    verify = SimpleNamespace(globs_for=lambda name: ())
    recipe = SimpleNamespace(model=SimpleNamespace(inputs={"image": None}), verify=verify)
    imported = SimpleNamespace(inputs=())
    return bool(report_doubts.doubts(recipe, imported, score, 30))  # type: ignore[arg-type]


@pytest.mark.parametrize(("same", "different"), [(36, 594), (300, 300)])
def test_scores_without_meaning_are_doubted_and_others_are_not_however_few_pairs_are_the_same(
    same: int, different: int
) -> None:
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(200):
        result = verify_pairs(rng.standard_normal(same + different), np.arange(same + different) < same, 0.01)
        told += pairs_doubted(same, different, result.accuracy)
    assert told >= 180  # of 190 that 19 in 20 would be
    scores = rng.standard_normal(same + different) + 2.0 * (np.arange(same + different) < same)
    useful = verify_pairs(scores, np.arange(same + different) < same, 0.01)
    assert not pairs_doubted(same, different, useful.accuracy)
