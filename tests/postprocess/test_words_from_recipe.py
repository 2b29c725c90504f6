"""The words behind a network take sizes and formats from the program, and refuse what does not fit it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnkit.custom_ops import PriorBox
from nnkit.errors import RecipeError
from nnkit.postprocess import ArgMax, DescriptorMatch, Detections, L2Normalize, Numbers, Softmax, TopK, Yolo, YoloHead
from nnkit.postprocess.from_recipe import stages_of
from nnkit.program import Affine, Float, Program, Tensor
from nnkit.recipe import TargetOptionsBase, load_recipe

U8, I16, F32 = Affine(8, (0.02,), (7,)), Affine(16, (0.001,), (0,), signed=True), Float(32)
SSD = (
    "{kind: ssd, location: loc, confidence: conf, image: [32, 32], variance: [0.1, 0.1, 0.2, 0.3], top_k: 9, "
    "priors: [{map: [2, 2], min_size: [8], max_size: [16]}, {map: [1, 1], min_size: [20], aspect_ratio: [2]}]}"
)
NMS = "{kind: nms, boxes: boxes, scores: by_class, format: center, image: [32, 64], background: 0}"
TENSORS = {
    "loc": ((11, 4), U8),
    "conf": ((11, 3), I16),
    "boxes": ((11, 4), F32),
    "by_class": ((3, 11), U8),
    "rows": ((5, 9), U8),
    "map": ((3, 4, 5), U8),
    "face": ((16,), F32),
    "grid": ((12, 8), U8),
    "fine": ((1, 1, 48, 8), U8),
    "wide": ((16,), Affine(32, (0.1,), (0,), signed=True)),
}


def stages(folder: Path, words: str) -> list[object]:
    """Of a recipe with these words, for a program with all outputs of TENSORS."""
    (folder / "m.onnx").write_bytes(b"")
    path = folder / "recipe.yaml"
    path.write_text(
        "nnkit: 1\nname: demo\nmodel: {path: m.onnx, inputs: {x: {shape: [1, 1, 32, 32]}}}\n"
        f"targets: {{ansi_c: {{}}}}\npostprocess: [{words}]\n"
    )
    tensors = {name: Tensor(name, shape, form, -9, 9) for name, (shape, form) in TENSORS.items()}
    tensors["x"] = Tensor("x", (1, 32, 32), U8, 0, 255)
    program = Program("demo", tensors, (), ("x",), tuple(TENSORS))
    return list(stages_of(load_recipe(path, target_models={"ansi_c": TargetOptionsBase}), program))


def test_ssd_takes_its_default_boxes_from_the_recipe(tmp_path: Path) -> None:
    (stage,) = stages(tmp_path, SSD)
    assert isinstance(stage, Detections)
    assert (stage.boxes, stage.classes, stage.top_k, stage.background) == (11, 3, 9, 0)
    assert stage.unit == (0.1, 0.1, 0.2, 0.3)
    assert (stage.location, stage.confidence) == (Numbers(8, False, 0.02, 7), Numbers(16, True, 0.001))
    first = PriorBox((8.0,), (16.0,)).boxes((1, 1, 2, 2), (1, 3, 32, 32))[0, 0].reshape(-1, 4)
    sides = (first[:, 2:] - first[:, :2]) * 16384
    np.testing.assert_allclose(np.array(stage.priors)[:8, 2:], sides, atol=0.5001)
    assert stage.priors[8] == (8192, 8192, 10240, 10240)


def test_nms_reads_boxes_in_units_of_the_image(tmp_path: Path) -> None:
    (stage,) = stages(tmp_path, NMS)
    assert isinstance(stage, Detections)
    assert stage.classes_first
    assert (stage.code, stage.unit, stage.background) == ("center", (1 / 64, 1 / 32, 1 / 64, 1 / 32), 0)


YOLO = (
    "{kind: yolo, code: v5, image: [32, 64], heads: [{output: fine, map: [4, 6], anchors: [[16, 8], [32, 32]]}, "
    "{output: grid, map: [2, 3], anchors: [[64, 16], [1, 1]]}]}"
)


def test_yolo_takes_classes_and_formats_from_the_outputs(tmp_path: Path) -> None:
    (stage,) = stages(tmp_path, YOLO)
    assert isinstance(stage, Yolo)
    assert stage.heads == (
        YoloHead(0, 4, 6, ((4096, 4096), (8192, 16384))),
        YoloHead(1, 2, 3, ((16384, 8192), (256, 512))),
    )
    assert (stage.classes, stage.scale_xy, stage.outputs) == (3, 2.0, (Numbers(8, False, 0.02, 7),) * 2)


def test_two_maps_of_a_yolo_may_lie_in_one_output(tmp_path: Path) -> None:
    maps = "{output: fine, map: [5, 8]}, {output: fine, map: [2, 4]}"
    (stage,) = stages(tmp_path, f"{{kind: yolo, code: x, image: [64, 64], heads: [{maps}]}}")
    assert isinstance(stage, Yolo)
    assert [(head.output, head.rows, head.anchors) for head in stage.heads] == [
        (0, 40, ((2048, 3277),)),
        (0, 8, ((4096, 8192),)),
    ]


def test_words_on_rows(tmp_path: Path) -> None:
    words = (
        "{kind: softmax, output: rows}, {kind: argmax, output: rows, classes: 15}, {kind: topk, output: rows, k: 2}, "
        "{kind: l2_normalize, output: face}, {kind: match, output: face, threshold: 0.5, normalize: true}"
    )
    numbers = Numbers(8, False, 0.02, 7)
    assert stages(tmp_path, words) == [
        Softmax(5, 9, numbers),
        ArgMax(3, 15, numbers),
        TopK(5, 9, numbers, 2),
        L2Normalize(1, 16, Numbers()),
        DescriptorMatch(16, F32, 16, 0.5, normalize=True),
    ]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (SSD.replace("[2, 2]", "[3, 2]"), "33 values, which are no rows of 15 boxes"),
        (SSD.replace("loc,", "boxes, share_location: false,"), "44 values, and 11 default boxes take 132"),
        (SSD.replace("loc,", "map,"), "60 values, and 11 default boxes take 44"),
        (SSD.replace("0.1, 0.1, 0.2", "300, 0.1, 0.2"), "moves a box by half the image"),
        (NMS.replace("boxes: boxes", "boxes: rows"), "no list of boxes"),
        (NMS.replace("by_class", "nose"), "no output 'nose'"),
        ("{kind: softmax, output: map}", "'map' is a map of"),
        ("{kind: topk, output: rows, k: 10}", "10 is out of range"),
        ("{kind: argmax, output: rows, classes: 7}", "45 values, which are no rows of 7"),
        ("{kind: l2_normalize, output: wide}", "is not supported"),
        ("{kind: match, output: face, threshold: 0.5}", "floats are compared at unit length alone"),
        ("{kind: argmax}", "the network has 10 outputs"),
        (YOLO.replace("[4, 6]", "[4, 5]"), "'fine' has 384 values for 40 rows"),
        (YOLO.replace(", [1, 1]", ""), "'grid' has 96 values for 6 rows"),
        (YOLO.replace("v5", "x"), "`code: x` has no anchors"),
        (YOLO.replace(", anchors: [[64, 16], [1, 1]]", ""), "`code: v5` needs anchors"),
        (f"{SSD}, {NMS}", "there are both ssd and nms"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(words: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        stages(tmp_path, words)
    assert reason in str(caught.value)
    assert "recipe.yaml:" in str(caught.value)
    assert caught.value.remedy
