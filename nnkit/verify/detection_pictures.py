"""Pictures of what a network finds: the recipe's `ssd`, `nms` or `yolo` on verification images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError
from nnkit.postprocess import Detected, Detections, Stage, Yolo, detect, detect_yolo

FOLDER = "detections"
_LONGER_SIDE = 480  # smaller pictures are enlarged by a whole factor up to this
_COLORS = ((230, 60, 50), (40, 150, 255), (60, 190, 80), (255, 170, 0), (190, 90, 230), (0, 190, 190))


def store_detections(
    folder: Path,
    stage: Stage,
    tensors: Sequence[str],
    outputs: Sequence[Mapping[str, NDArray[Any]]],
    picture: Callable[[int], NDArray[np.uint8] | None],
) -> None:
    """Write `detections/<index>.png` for every sample that has a picture, and `detections/detections.csv`.

    stage: one that makes detections. tensors: names of the outputs that it reads, in its order.
    outputs: stored values by name, one mapping a sample.
    picture: a sample's input, [H, W] gray or [H, W, 3]. The CSV has a line for each detection: sample, class, score,
    x_min, y_min, x_max, y_max as fractions of the image.
    """
    (folder / FOLDER).mkdir()
    lines = ["sample,class,score,x_min,y_min,x_max,y_max\n"]
    for index, values in enumerate(outputs):
        detections = _detected([values[name] for name in tensors], stage)
        for each, score in detections:
            corners = ",".join(f"{corner:.4f}" for corner in each.corners)
            lines.append(f"{index},{each.label},{score:.4f},{corners}\n")
        pixels = picture(index)
        if pixels is not None:
            _drawn(pixels, detections).save(folder / FOLDER / f"{index}.png", optimize=True)
    (folder / FOLDER / "detections.csv").write_text("".join(lines), encoding="utf-8")


def _detected(outputs: Sequence[NDArray[Any]], stage: Stage) -> list[tuple[Detected, float]]:
    """The detections, each with its score as a real number."""
    if isinstance(stage, Yolo):
        stored = [values.astype(numbers.dtype) for values, numbers in zip(outputs, stage.outputs, strict=True)]
        return [(each, float(stage.confidence.real(each.score))) for each in detect_yolo(stored, stage)]
    if not isinstance(stage, Detections):
        raise InternalError(f"{type(stage).__name__} makes no detections")
    location, scores = outputs
    detected = detect(location.astype(stage.location.dtype), scores.astype(stage.confidence.dtype), stage)
    return [(each, float(stage.confidence.real(each.score))) for each in detected]


def _drawn(pixels: NDArray[np.uint8], detections: Sequence[tuple[Detected, float]]) -> Any:
    from PIL import Image, ImageDraw

    image = Image.fromarray(pixels).convert("RGB")
    factor = max(1, _LONGER_SIDE // max(image.size))
    image = image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(image)
    for each, score in detections:
        x_min, y_min, x_max, y_max = each.corners
        box = (x_min * image.width, y_min * image.height, x_max * image.width, y_max * image.height)
        if box[0] > box[2] or box[1] > box[3]:
            continue
        color = _COLORS[each.label % len(_COLORS)]
        draw.rectangle(box, outline=color, width=2)
        draw.text((box[0] + 3, box[1] + 2), f"{each.label}: {score:.2f}", fill=color)
    return image
