"""Boxes and scores to detections, in integers: the box decoding and non-maximum suppression of an SSD.

Coordinates, and what is read multiplied by a constant (`scaled`), are those of `nnkit.postprocess.boxes`, kept within
[-16384, 32767], or with `clip` within [0, 16384]. Shifts t have 13 fraction bits and stay within +-65535. A box of a
prior of side w, by `code`:

    center_size   centre + ((t * w + 2^12) >> 13);  half a side = (E(f) * w + 2^(14-k)) >> (15 - k), where
                  u = t * log2(e) with 13 fraction bits, within [-122880, 49151], k = u >> 13, f = u & 8191, and
                  E(f) = 2^(f / 2^13) with 14 fraction bits, linear between 64 points
    corner        corner + 2 t
    corner_size   corner + ((t * w + 2^12) >> 13)
    corners       no prior: scaled(v), 14 fraction bits
    center        no prior: centre and side; low = centre - (side >> 1), high = low + side

Per class but the background: boxes of a score above the threshold, best first (of equal ones the lower index), at
most `top_k`; a box stays unless common * (2^14 + t) > (area + area) * t for one that stayed, t the threshold with 14
fraction bits, which `eta` lowers after each that stays while it is above 1/2. Of all classes the best `keep` stay, of
equal ones those of the lower class, then of the better rank. `nnkit_detect.c` computes the same integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.postprocess._checks import require_range
from nnkit.postprocess.boxes import (
    BOX_FRAC,
    BOX_LEAST,
    BOX_MOST,
    EXP_LEAST,
    EXP_MOST,
    ONE,
    SHIFT_FRAC,
    SHIFT_MOST,
    Detected,
    Factor,
    half_sides,
    overlap,
    scaled,
)
from nnkit.postprocess.numbers import Numbers

Code: TypeAlias = Literal["center_size", "corner", "corner_size", "corners", "center"]

MAX_BOXES, MAX_CLASSES = 1 << 20, 32767


@dataclass(frozen=True)
class Detections:
    """Parameters, fixed when the code is generated.

    word: `ssd` or `nms`, for messages. boxes: how many there are, of `classes` classes. location, confidence: what is
    read. priors: [boxes, 4] of each prior as fractions of the image, centre and sides with `center_size`, else
    corners; empty without priors. unit: what a real 1 that is read stands for, by coordinate: the variances, or
    1 / size of the image. shared: one box for all classes. classes_first: scores are [classes, boxes].
    background: class that is left out, -1: none.

    Raises UsageError for a value out of range.
    """

    word: str
    code: Code
    boxes: int
    classes: int
    location: Numbers
    confidence: Numbers
    unit: tuple[float, float, float, float]
    score_threshold: float
    iou_threshold: float
    top_k: int
    keep: int
    priors: tuple[tuple[int, int, int, int], ...] = field(default=(), repr=False)
    shared: bool = True
    classes_first: bool = False
    background: int = -1
    eta: float = 1.0
    clip: bool = False

    def __post_init__(self) -> None:
        require_range(f"{self.word}.boxes", self.boxes, 1, MAX_BOXES)
        require_range(f"{self.word}.classes", self.classes, 1, MAX_CLASSES)
        require_range(f"{self.word}.top_k", self.top_k, 1, self.boxes)
        require_range(f"{self.word}.keep", self.keep, 1, MAX_BOXES)
        if not all(math.isfinite(unit) and unit > 0 for unit in self.unit):
            raise UsageError(
                f"{self.unit} are not units", where=f"{self.word}.variance", remedy="give numbers above 0"
            )
        for name, least in (("iou_threshold", 0.0), ("eta", 2.0**-BOX_FRAC)):
            if not least <= getattr(self, name) <= 1:
                raise UsageError(
                    f"{getattr(self, name)!r} is out of range",
                    where=f"{self.word}.{name}",
                    remedy="choose a number from 0 to 1",
                )
        if not all(self.location.is_float or each.shift >= 1 for each in self.factors):
            raise UsageError(
                f"a step of the boxes' values ({self.location.scale:.3g}) moves a box by half the image or more",
                where=self.word,
                remedy="correct the variances or the image's size, or give the output 16 bits",
            )

    @property
    def factors(self) -> tuple[Factor, ...]:
        """By coordinate."""
        frac = SHIFT_FRAC if self.priors else BOX_FRAC
        sides = math.log2(math.e) if self.code == "center_size" else 1.0
        return tuple(
            Factor.of(self.location.scale * unit * 2**frac * (sides if i >= 2 else 1.0))
            for i, unit in enumerate(self.unit)
        )

    @property
    def rows(self) -> int:
        """Most detections that are held at a time."""
        return self.keep + min(self.keep, self.top_k)

    @property
    def iou(self) -> int:
        """The threshold of overlaps with 14 fraction bits."""
        return round(self.iou_threshold * ONE)

    @property
    def eta_fixed(self) -> int:
        """`eta` with 14 fraction bits."""
        return round(self.eta * ONE)

    @property
    def working_bytes(self) -> int:
        """Bytes that `nnkit_detections` works in, results included: rows are 12 or 16 bytes, indices 2 or 4."""
        row = 14 if self.confidence.is_float else 10 + self.confidence.bits // 8
        align = 4 if self.confidence.is_float else 2
        index = 2 if self.boxes <= 1 << 16 else 4
        total = 4 + self.rows * -(-row // align) * align + self.top_k * index
        return -(-total // 4) * 4


def prior_integers(code: Code, corners: NDArray[Any]) -> tuple[tuple[int, int, int, int], ...]:
    """Priors [boxes, 4], corners as fractions of the image, as `Detections` takes them."""
    values = np.asarray(corners, np.float64)
    low, high = -ONE + 1, ONE
    if code == "center_size":
        sides = values[:, 2:] - values[:, :2]
        values = np.concatenate([(values[:, :2] + values[:, 2:]) / 2, sides], axis=1)
        low, high = -2 * ONE, 2 * ONE - 1
    whole = np.clip(np.floor(values * ONE + 0.5), low, high).astype(int)
    return tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in whole)


def detect(location: NDArray[Any], confidence: NDArray[Any], params: Detections) -> list[Detected]:
    """The detections: classes ascend, within each the best first.

    location: boxes * 4 stored values, or boxes * classes * 4 where not shared. confidence: boxes * classes.
    Raises UsageError where one has another type or size.
    """
    sets = 1 if params.shared else params.classes
    where = params.word
    read = params.location.centred(where, location, params.boxes * sets * 4).reshape(params.boxes, sets, 4)
    params.confidence.centred(where, confidence, params.boxes * params.classes)
    shape = (params.classes, params.boxes) if params.classes_first else (params.boxes, params.classes)
    scores = confidence.reshape(shape) if params.classes_first else confidence.reshape(shape).T
    detections: list[Detected] = []
    for label in range(params.classes):
        if label != params.background:
            boxes = _decoded(read[:, 0 if params.shared else label], params)
            detections += _suppressed(boxes, scores[label], label, params)
            ranked = sorted(detections, key=lambda each: -each.score)[: params.keep]
            detections = sorted(ranked, key=lambda each: each.label)
    return detections


def _decoded(read: NDArray[Any], params: Detections) -> NDArray[np.int64]:
    """Corners [boxes, 4]."""
    priors = np.array(params.priors, np.int64).reshape(-1, 4)
    exponents = params.code == "center_size"
    columns = []
    for i, factor in enumerate(params.factors):
        low, high = (EXP_LEAST, EXP_MOST) if exponents and i >= 2 else (-SHIFT_MOST, SHIFT_MOST)
        columns.append(scaled(read[:, i], factor, low, high))
    shift = np.stack(columns, axis=1)
    if params.code == "corners":
        boxes = shift
    elif params.code == "center":
        least = shift[:, :2] - (shift[:, 2:] >> 1)
        boxes = np.concatenate([least, least + shift[:, 2:]], axis=1)
    elif params.code == "corner":
        boxes = priors + 2 * shift
    elif params.code == "corner_size":
        sides = np.tile(priors[:, 2:] - priors[:, :2], 2)
        boxes = priors + ((shift * sides + 4096) >> SHIFT_FRAC)
    else:
        centres = priors[:, :2] + ((shift[:, :2] * priors[:, 2:] + 4096) >> SHIFT_FRAC)
        halves = half_sides(shift[:, 2:], priors[:, 2:])
        boxes = np.concatenate([centres - halves, centres + halves], axis=1)
    return np.clip(boxes, 0, ONE) if params.clip else np.clip(boxes, BOX_LEAST, BOX_MOST)


def _suppressed(boxes: NDArray[np.int64], scores: NDArray[Any], label: int, params: Detections) -> list[Detected]:
    above = np.float32(params.score_threshold)
    passed = (
        scores > above if params.confidence.is_float else scores > params.confidence.above(params.score_threshold)
    )
    candidates = np.flatnonzero(passed)
    order = candidates[np.argsort(-scores[candidates].astype(np.float64), kind="stable")][: params.top_k]
    kept: list[int] = []
    threshold = params.iou
    for index in order:
        if len(kept) == params.keep:
            break
        if kept and bool(np.any(overlap(boxes[index], boxes[kept], threshold))):
            continue
        kept.append(int(index))
        if params.eta < 1 and threshold > ONE // 2:
            threshold = (threshold * params.eta_fixed + ONE // 2) >> BOX_FRAC
    detections = []
    for index in kept:
        x_min, y_min, x_max, y_max = (int(value) for value in boxes[index])
        score = float(scores[index]) if params.confidence.is_float else int(scores[index])
        detections.append(Detected(label, score, (x_min, y_min, x_max, y_max)))
    return detections
