"""Pictures of what a network finds: the boxes of the recipe's `ssd` or `nms` on images of the verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.postprocess import Detected, Detections, detect

FOLDER = "detections"
_LONGER_SIDE = 480  # smaller pictures are enlarged by a whole factor up to this
_COLORS = ((230, 60, 50), (40, 150, 255), (60, 190, 80), (255, 170, 0), (190, 90, 230), (0, 190, 190))


def store_detections(
    folder: Path,
    stage: Detections,
    tensors: tuple[str, str],
    outputs: Sequence[Mapping[str, NDArray[Any]]],
    picture: Callable[[int], NDArray[np.uint8] | None],
) -> None:
    """Write `detections/<index>.png` for every sample that has a picture, and `detections/detections.csv`.

    tensors: names of the outputs with the boxes and the scores. outputs: stored values by name, one mapping a sample.
    picture: a sample's input, [H, W] gray or [H, W, 3]. The CSV has a line for each detection: sample, class, score,
    x_min, y_min, x_max, y_max as fractions of the image.
    """
    (folder / FOLDER).mkdir()
    lines = ["sample,class,score,x_min,y_min,x_max,y_max\n"]
    for index, values in enumerate(outputs):
        location, scores = (values[name] for name in tensors)
        detections = detect(location.astype(stage.location.dtype), scores.astype(stage.confidence.dtype), stage)
        for each in detections:
            corners = ",".join(f"{corner:.4f}" for corner in each.corners)
            lines.append(f"{index},{each.label},{float(stage.confidence.real(each.score)):.4f},{corners}\n")
        pixels = picture(index)
        if pixels is not None:
            _drawn(pixels, detections, stage).save(folder / FOLDER / f"{index}.png", optimize=True)
    (folder / FOLDER / "detections.csv").write_text("".join(lines), encoding="utf-8")


def _drawn(pixels: NDArray[np.uint8], detections: Sequence[Detected], stage: Detections) -> Any:
    from PIL import Image, ImageDraw

    image = Image.fromarray(pixels).convert("RGB")
    factor = max(1, _LONGER_SIDE // max(image.size))
    image = image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(image)
    for each in detections:
        x_min, y_min, x_max, y_max = each.corners
        box = (x_min * image.width, y_min * image.height, x_max * image.width, y_max * image.height)
        if box[0] > box[2] or box[1] > box[3]:
            continue
        color = _COLORS[each.label % len(_COLORS)]
        draw.rectangle(box, outline=color, width=2)
        draw.text(
            (box[0] + 3, box[1] + 2), f"{each.label}: {float(stage.confidence.real(each.score)):.2f}", fill=color
        )
    return image
