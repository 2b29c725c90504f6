"""Boxes and scores to detections, in integers: the box decoding and non-maximum suppression of an SSD.

Coordinates are fractions of the image with 14 fraction bits (16384 is the right or lower edge), kept within
[-16384, 32767], or with `clip` within [0, 16384]. What is read, v = stored - zero, is multiplied by a constant m:

    scaled(v) = (v * high + ((v * low + 2^13) >> 14) + 2^(s-1)) >> s,    m = (high * 2^14 + low) * 2^-(14+s)

with high and low below 2^14; a float is rounded half up instead, floor(v * m + 1/2). Shifts t have 13 fraction bits
and stay within +-65535. A box of a prior of side w, by `code`:

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
from nnkit.postprocess.numbers import Numbers

Code: TypeAlias = Literal["center_size", "corner", "corner_size", "corners", "center"]

BOX_FRAC, SHIFT_FRAC, EXP_POINTS = 14, 13, 64
ONE = 1 << BOX_FRAC
MAX_BOXES, MAX_CLASSES = 1 << 20, 32767
_SHIFT_MOST, _EXP_LEAST, _EXP_MOST = 65535, -15 << SHIFT_FRAC, (6 << SHIFT_FRAC) - 1
_BOX_LEAST, _BOX_MOST = -ONE, 2 * ONE - 1

EXP2 = tuple(round(2.0 ** (i / EXP_POINTS) * (1 << BOX_FRAC)) for i in range(EXP_POINTS + 1))
"""2^(i / 64) with 14 fraction bits."""


@dataclass(frozen=True)
class Factor:
    """A constant that stored values are multiplied by, as the C has it; real: for floats."""

    high: int
    low: int
    shift: int
    real: float


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
            _factor(self.location.scale * unit * 2**frac * (sides if i >= 2 else 1.0))
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


@dataclass(frozen=True)
class Detected:
    """label: class. score: as stored. box: x_min, y_min, x_max, y_max with 14 fraction bits."""

    label: int
    score: int | float
    box: tuple[int, int, int, int]

    @property
    def corners(self) -> tuple[float, float, float, float]:
        """The box as fractions of the image."""
        x_min, y_min, x_max, y_max = (each / ONE for each in self.box)
        return x_min, y_min, x_max, y_max


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


def _factor(real: float) -> Factor:
    mantissa, exponent = math.frexp(real)  # real = mantissa * 2^exponent, mantissa in [0.5, 1)
    whole = min(round(mantissa * (1 << 28)), (1 << 28) - 1)
    shift = 14 - exponent
    return Factor(0, 0, 1, real) if shift > 30 else Factor(whole >> 14, whole & 16383, shift, real)


def _scaled(values: NDArray[Any], factor: Factor, low: int, high: int) -> NDArray[np.int64]:
    if values.dtype == np.float64:
        with np.errstate(invalid="ignore", over="ignore"):
            rounded = np.floor(values * factor.real + 0.5)
        kept: NDArray[np.int64] = np.where(rounded > low, np.minimum(rounded, high), low).astype(np.int64)  # NaN: low
        return kept
    product = values * factor.high + ((values * factor.low + (1 << 13)) >> 14)
    scaled: NDArray[np.int64] = np.clip((product + (1 << (factor.shift - 1))) >> factor.shift, low, high)
    return scaled


def _decoded(read: NDArray[Any], params: Detections) -> NDArray[np.int64]:
    """Corners [boxes, 4]."""
    priors = np.array(params.priors, np.int64).reshape(-1, 4)
    exponents = params.code == "center_size"
    columns = []
    for i, factor in enumerate(params.factors):
        low, high = (_EXP_LEAST, _EXP_MOST) if exponents and i >= 2 else (-_SHIFT_MOST, _SHIFT_MOST)
        columns.append(_scaled(read[:, i], factor, low, high))
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
        halves = _half_sides(shift[:, 2:], priors[:, 2:])
        boxes = np.concatenate([centres - halves, centres + halves], axis=1)
    return np.clip(boxes, 0, ONE) if params.clip else np.clip(boxes, _BOX_LEAST, _BOX_MOST)


def _half_sides(exponents: NDArray[np.int64], sides: NDArray[np.int64]) -> NDArray[np.int64]:
    whole, fraction = exponents >> SHIFT_FRAC, exponents & ((1 << SHIFT_FRAC) - 1)
    points = np.array(EXP2, np.int64)
    index, rest = fraction >> 7, fraction & 127
    power = points[index] + (((points[index + 1] - points[index]) * rest + 64) >> 7)
    halves: NDArray[np.int64] = (power * sides + (1 << (14 - whole))) >> (15 - whole)
    return halves


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
        if kept and bool(np.any(_exceed(boxes[index], boxes[kept], threshold))):
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


def _exceed(box: NDArray[np.int64], others: NDArray[np.int64], threshold: int) -> NDArray[np.bool_]:
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    inside = (sides > 0).all(axis=1)
    common = sides[:, 0] * sides[:, 1]
    areas = _area(others) + _area(box[None])
    exceeds: NDArray[np.bool_] = inside & (common * (ONE + threshold) > areas * threshold)
    return exceeds


def _area(boxes: NDArray[np.int64]) -> NDArray[np.int64]:
    sides = boxes[:, 2:] - boxes[:, :2]
    areas: NDArray[np.int64] = np.where((sides < 0).any(axis=1), 0, sides[:, 0] * sides[:, 1])
    return areas
