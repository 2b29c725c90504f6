"""Detections on the simulated NNIE against OpenCV's float ones of the published files: RetinaFace and res10 SSD.

    NNKIT_SHARED=<folder> python -m benchmarks.nnie_detections [--networks A,B] [--json]

Each network is built by `nnkit run` in 8 bits without corrections of weights, in 8 bits as a recipe has it that says
nothing of them, and in 16, calibrated on photos of ImageNet, and judged on six of faces. The first build is also run
with one scale for each layer and sums in float ("before"). RetinaFace gives maps, of which boxes are made as its
authors do: two anchors a place, non-maximum suppression at an overlap of 0.4.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.networks import shared_folder
from benchmarks.nnie_layer_scales import with_layer_scales
from benchmarks.nnie_networks import FACES, NETWORKS, PHOTOS, run, write_recipe
from benchmarks.table import Row, show
from nnkit.program import Program

Array = NDArray[Any]
Decode = Callable[[Mapping[str, Array]], Array]
"""From outputs by name, with a batch axis, to boxes [n, 5]: score, x0, y0, x1, y1."""

WITHOUT_CORRECTIONS = "8 bits"
VARIANTS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        WITHOUT_CORRECTIONS: (0, ", calibration: {corrections: []}"),
        "8 bits, corrected": (0, ""),
        "16 bits": (1, ""),
    }
)
LEAST_SCORE, SAME = 0.5, 0.5
_ANCHORS = MappingProxyType({32: (512, 256), 16: (128, 64), 8: (32, 16)})
_CALIBRATED = 24


def overlap(a: Array, b: Array) -> float:
    """Intersection over union of two boxes x0, y0, x1, y1."""
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0.0)
    common = float(sides.prod())
    return common / (float((a[2:] - a[:2]).prod()) + float((b[2:] - b[:2]).prod()) - common)


def retinaface_boxes(outputs: Mapping[str, Array]) -> Array:
    """Scores stand behind the background's; an anchor is a square around the middle of its place."""
    rows = []
    for stride, sides in _ANCHORS.items():
        scores = outputs[f"face_rpn_cls_prob_reshape_stride{stride}"][0, 2:]
        moves = outputs[f"face_rpn_bbox_pred_stride{stride}"][0]
        for anchor, side in enumerate(sides):
            dx, dy, dw, dh = moves[4 * anchor : 4 * anchor + 4]
            for y, x in zip(*np.nonzero(scores[anchor] >= LEAST_SCORE / 4), strict=True):
                middle = np.asarray([x * stride + 7.5 + dx[y, x] * side, y * stride + 7.5 + dy[y, x] * side])
                half = np.exp([dw[y, x], dh[y, x]]) * side / 2.0
                rows.append([scores[anchor, y, x], *(middle - half), *(middle + half)])
    kept: list[Array] = []
    for row in np.asarray(sorted(rows, reverse=True)).reshape(-1, 5):
        if all(overlap(row[1:], other[1:]) <= 0.4 for other in kept):
            kept.append(row)
    return np.asarray(kept).reshape(-1, 5)


def res10_boxes(outputs: Mapping[str, Array]) -> Array:
    """Rows of DetectionOutput."""
    rows = outputs["detection_out"].reshape(-1, 7)
    return rows[rows[:, 0] >= 0][:, 2:]


DECODE: Mapping[str, Decode] = MappingProxyType({"retinaface": retinaface_boxes, "res10_ssd": res10_boxes})


def compare(found: Sequence[Array], expected: Sequence[Array]) -> dict[str, Any]:
    """Detections of all images against the float ones of at least `LEAST_SCORE`, each with its best match.

    found: how many are there with an overlap of `SAME` and half that score. more: strong ones that float has not.
    """
    wanted, overlaps, scores, more = 0, [], [], 0
    for ours, theirs in zip(found, expected, strict=True):
        for row in theirs[theirs[:, 0] >= LEAST_SCORE]:
            wanted += 1
            best = max(ours, key=lambda other: overlap(row[1:], other[1:]), default=None)
            if best is not None and overlap(row[1:], best[1:]) >= SAME:
                overlaps.append(overlap(row[1:], best[1:]))
                scores.append(abs(float(row[0] - best[0])))
        for row in ours[ours[:, 0] >= LEAST_SCORE]:
            more += all(overlap(row[1:], other[1:]) < SAME for other in theirs)
    return {
        "faces in float": wanted,
        "found": len(overlaps),
        "mean overlap": round(float(np.mean(overlaps)), 3),
        "least overlap": round(min(overlaps), 3),
        "largest difference of score": round(max(scores), 3),
        "others": more,
    }


def in_opencv(name: str, shared: Path) -> Callable[[Array], dict[str, Array]]:
    """The published files in OpenCV, float."""
    import cv2

    network = NETWORKS[name]
    net = cv2.dnn.readNetFromCaffe(str(shared / network.model), str(shared / str(network.weights)))
    names = net.getUnconnectedOutLayersNames()

    def outputs(image: Array) -> dict[str, Array]:
        net.setInput(image)
        return dict(zip(names, net.forward(names), strict=True))

    return outputs


def simulated(program: Program, input_name: str, image: Array) -> dict[str, Array]:
    """Outputs of one image as real numbers, with a batch axis."""
    from nnkit.program.inputs import quantized_inputs
    from nnkit.samples import Sample
    from nnkit.simulate import simulate

    stored = simulate(program, quantized_inputs(program, Sample("", {input_name: image})))
    tensors = {each: program.tensors[each] for each in program.outputs}
    return {name: of.format.dequantize(stored[name]).reshape(1, *of.shape) for name, of in tensors.items()}


def measured(name: str, shared: Path, folder: Path) -> list[Row]:
    """One network in all variants. Raises SystemExit where a build fails."""
    from nnkit.builds import open_build
    from nnkit.preprocess import Preprocess, load_input
    from nnkit.recipe import Preprocess as WrittenPreprocess

    network = NETWORKS[name]
    mean = json.loads(network.mean)
    given = {"color": network.color, "resize": {"size": list(network.size)}, "scale": [network.scale]}
    given["mean"] = mean if isinstance(mean, list) else [mean]
    shape = (1, 3, *network.size)
    preprocess = Preprocess.from_recipe(WrittenPreprocess(**given), shape)
    images = [load_input(file, preprocess, shape) for file in sorted(shared.glob(FACES))]
    floats = in_opencv(name, shared)
    expected = [DECODE[name](floats(image)) for image in images]
    rows: list[Row] = []
    for variant, (mode, more) in VARIANTS.items():
        place = folder / name / variant.replace(" ", "_")
        recipe = write_recipe(
            place, name, shared, mode=mode, calibrated=_CALIBRATED, verified=2, more=f"{more}, precision_table: false"
        )
        text = recipe.read_text()
        own = f"calibration: {{images: {json.dumps(str(shared / FACES))}"
        recipe.write_text(text.replace(own, f"calibration: {{images: {json.dumps(str(shared / PHOTOS))}"))
        done = run(recipe, place / "out")
        if done.returncode:
            raise SystemExit(f"{name} in {variant} ended {done.returncode}\n{done.stderr}")
        build = open_build(place / "out" / name / "nnie")
        programs = {variant: build.program}
        if variant == WITHOUT_CORRECTIONS:
            programs[f"{variant}, before"] = with_layer_scales(build.folder, build.program)
        held = [note for note in build.report["quantization_notes"] if "held-out" in note]
        for how, program in programs.items():
            detected = [DECODE[name](simulated(program, network.input_name, image)) for image in images]
            rows.append({"network": name, "variant": how, **compare(detected, expected), "judged": "; ".join(held)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nnie_detections")
    parser.add_argument("--networks", help=f"names, separated by commas, of {', '.join(DECODE)}; default: both")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    shared = shared_folder()
    if shared is None:
        raise SystemExit("set NNKIT_SHARED to the folder that holds models and images")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    wanted = arguments.networks.split(",") if arguments.networks else list(DECODE)
    with tempfile.TemporaryDirectory(prefix="nnkit-bench-") as name:
        rows = [row for network in wanted for row in measured(network, shared, Path(name))]
    show(rows, as_json=arguments.json, title="Detections against OpenCV's float")


if __name__ == "__main__":
    main()
