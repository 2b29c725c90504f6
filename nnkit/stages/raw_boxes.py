"""A network that gives boxes and scores, and leaves it to the application to pick detections: seen by its outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from nnkit.graph import Model, OutputSpec

_SCORES = re.compile(r"score|prob|conf|cls|class", re.IGNORECASE)
_BOXES = re.compile(r"box|loc|reg", re.IGNORECASE)
_LEAST_BOXES = 16
_LITTLE = (
    "the outputs look like a detector's boxes and scores, of which cosine and dB say little: most of them are of the "
    "background"
)


def raw_boxes_note(model: Model, *, staged: bool = False) -> str | None:
    """What to write in the recipe so that detections are compared; None where outputs do not look like a detector's.

    A guess by names and shapes: scores, and for the same places four numbers a box. staged: whether the recipe has a
    stage that makes detections of them.
    """
    if staged:
        return f"{_LITTLE}. To compare detections, write verify: {{task: {{kind: detection}}}} (docs/accuracy.md)"
    pairs = _pairs(model.outputs)
    if not pairs:
        return None
    images = [spec.shape for spec in model.inputs if len(spec.shape) == 4]
    heads = ", ".join(_head(boxes, scores, images) for boxes, scores in pairs)
    return (
        f"{_LITTLE}. To compare detections, write verify: {{task: {{kind: detection, decode: {{heads: [{heads}]"
        "}}}, with the network's own anchors and variances (docs/accuracy.md)"
    )


def _pairs(outputs: Sequence[OutputSpec]) -> list[tuple[OutputSpec, OutputSpec]]:
    pairs = []
    for scores in outputs:
        fitting = [
            each for each in outputs if each is not scores and _SCORES.search(scores.name) and _fit(each, scores)
        ]
        fitting.sort(key=lambda each: (_BOXES.search(each.name) is None, each.shape))
        if fitting and not (_BOXES.search(scores.name) and not _BOXES.search(fitting[0].name)):
            pairs.append((fitting[0], scores))
    return pairs


def _fit(boxes: OutputSpec, scores: OutputSpec) -> bool:
    """Whether one may hold four numbers for each box that the other has scores of."""
    if _SCORES.search(boxes.name) and not _BOXES.search(boxes.name):
        return False
    if len(boxes.shape) == 4 and len(scores.shape) == 4 and boxes.shape[2:] == scores.shape[2:]:
        anchors, left = divmod(boxes.shape[1], 4)
        places = boxes.shape[2] * boxes.shape[3]
        return not left and anchors > 0 and not scores.shape[1] % anchors and places * anchors >= _LEAST_BOXES
    rows = boxes.shape[-2] if len(boxes.shape) > 1 else 0
    return boxes.shape[-1:] == (4,) and scores.shape[-2:-1] == (rows,) and rows >= _LEAST_BOXES


def _head(boxes: OutputSpec, scores: OutputSpec, images: Sequence[tuple[int, ...]]) -> str:
    stride = "..."
    if len(boxes.shape) == 4 and len(images) == 1:
        down, across = (round(images[0][axis] / boxes.shape[axis]) for axis in (2, 3))
        stride = str(down) if down == across else f"[{down}, {across}]"
    names = f"boxes: {_quoted(boxes.name)}, scores: {_quoted(scores.name)}"
    return f"{{{names}, anchors: [{{stride: {stride}, sides: [...]}}]}}"


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][\w./-]*", name) else json.dumps(name, ensure_ascii=False)
