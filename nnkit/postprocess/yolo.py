"""The rows of a YOLO head to detections, in integers: boxes decoded, scores multiplied, overlaps suppressed.

A row is 4 values of a box, the objectness, and a value for each class. Coordinates, `scaled`, E = 2^x and overlaps
are those of `nnkit.postprocess.boxes`. L(t), the logistic function with 15 fraction bits, of u = t * log2(e) with 13
fraction bits within +-122880, and p = 2^-|u| with 16 of them, ((8 * E(f) >> k) + 1) >> 1 where -|u| = f - (k << 13):

    L = (2^31 + d / 2) / d  for u >= 0, else  (p * 2^15 + d / 2) / d,   d = 2^16 + p, whole quotients

or, `activated`, the value itself with 15 fraction bits, within 0 and 1. A box of a cell, by `code`, from an anchor of
side w (`x`: of the cell's side):

    v3   centre = cell + s L(t) - (s - 1) / 2;  side = w e^t                 Redmon and Farhadi 2018, s: `scale_xy`
    v5   centre as v3;                          side = w (2 L(t))^2          Ultralytics YOLOv5
    x    centre = cell + t;                     side = w e^t                 Ge et al. 2021

Centres have 13 fraction bits in cells and are then divided by the map's cells, half up. A score is objectness times
class, (L * L + 2^14) >> 15. Of all rows and classes those above the threshold, best first, of equal ones the lower
row, then the lower class, at most `top_k`; one stays unless it overlaps one of its class that stayed by more than the
threshold; at most `keep` stay. `nnkit_yolo.c` computes the same integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.postprocess._checks import require_range
from nnkit.postprocess.boxes import (
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
    power_of_two,
    scaled,
)
from nnkit.postprocess.numbers import Numbers

YoloCode: TypeAlias = Literal["v3", "v5", "x"]
SCORE = Numbers(16, False, 2.0**-15)
"""What a stored score stands for."""
BOX_VALUES = 5
MAX_ROWS, MAX_CLASSES = 1 << 22, 32767
_LOGISTIC_MOST = 15 << SHIFT_FRAC
_NO_FACTOR = Factor(0, 0, 1, 0.0)


@dataclass(frozen=True)
class YoloHead:
    """A map of the image. output: which output holds its rows, one head's behind the other's in one output.

    anchors: width and height of each with 14 fraction bits of the image.
    """

    output: int
    height: int
    width: int
    anchors: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> int:
        """One for each cell and anchor."""
        return self.height * self.width * len(self.anchors)


@dataclass(frozen=True)
class Yolo:
    """Parameters, fixed when the code is generated.

    outputs: what the values of each stand for; all have one type. anchors_first: rows are [anchors, cells], else
    [cells, anchors]. activated: the network has computed the logistic functions.

    Raises UsageError for a value out of range.
    """

    code: YoloCode
    heads: tuple[YoloHead, ...]
    classes: int
    outputs: tuple[Numbers, ...]
    score_threshold: float
    iou_threshold: float
    top_k: int
    keep: int
    scale_xy: float = 1.0
    anchors_first: bool = True
    activated: bool = False
    clip: bool = False

    def __post_init__(self) -> None:
        require_range("yolo.rows", self.rows, 1, MAX_ROWS)
        require_range("yolo.classes", self.classes, 1, MAX_CLASSES)
        require_range("yolo.top_k", self.top_k, 1, MAX_ROWS)
        require_range("yolo.keep", self.keep, 1, MAX_ROWS)
        for name, least, most in (("score_threshold", 0.0, 1.0), ("iou_threshold", 0.0, 1.0), ("scale_xy", 1.0, 4.0)):
            if not least <= getattr(self, name) <= most:
                raise UsageError(
                    f"{getattr(self, name)!r} is out of range",
                    where=f"yolo.{name}",
                    remedy=f"choose a number from {least:g} to {most:g}",
                )
        if len({(each.bits, each.signed) for each in self.outputs}) > 1:
            raise UsageError(
                "the outputs hold values of different types",
                where="yolo",
                remedy="give them all the same number of bits",
            )
        for numbers, factors in zip(self.outputs, self.factors, strict=True):
            if not numbers.is_float and not all(each.shift >= 1 for each in factors):
                raise UsageError(
                    f"a step of the values ({numbers.scale:.3g}) is too coarse for a logistic function",
                    where="yolo",
                    remedy="give the output 16 bits (tags: hp)",
                )
        for head in self.heads:
            for side in (side for anchor in head.anchors for side in anchor):
                require_range("yolo.anchors", side, 1, 2 * ONE - 1)

    @property
    def rows(self) -> int:
        """Rows of all heads together."""
        return sum(head.rows for head in self.heads)

    @property
    def row_values(self) -> int:
        """Values of a row."""
        return BOX_VALUES + self.classes

    @property
    def confidence(self) -> Numbers:
        """What scores stand for."""
        return SCORE

    @property
    def factors(self) -> tuple[tuple[Factor, Factor, Factor], ...]:
        """By output, for exponents, for what is activated, and for offsets in cells; none where there are no such."""
        exponents = self.code != "v5" or not self.activated
        return tuple(
            (
                Factor.of(each.scale * math.log2(math.e) * 2**SHIFT_FRAC) if exponents else _NO_FACTOR,
                Factor.of(each.scale * 2**15) if self.activated else _NO_FACTOR,
                Factor.of(each.scale * 2**SHIFT_FRAC) if self.code == "x" else _NO_FACTOR,
            )
            for each in self.outputs
        )

    @property
    def scale_fixed(self) -> int:
        """`scale_xy` with 12 fraction bits."""
        return round(self.scale_xy * 4096)

    @property
    def iou(self) -> int:
        """The threshold of overlaps with 14 fraction bits."""
        return round(self.iou_threshold * ONE)

    @property
    def above(self) -> int:
        """Scores that count are above it."""
        return SCORE.above(self.score_threshold)

    @property
    def working_bytes(self) -> int:
        """Bytes that `nnkit_yolo_detections` takes: 12 for each detection, 6 or 8 for each that is looked at."""
        total = 4 + 12 * self.keep + (6 if self.rows <= 1 << 16 else 8) * self.top_k
        return -(-total // 4) * 4


def detect_yolo(outputs: Sequence[NDArray[Any]], params: Yolo) -> list[Detected]:
    """The detections, best first. outputs: stored values in the order of `params.outputs`.

    Raises UsageError where one has another type or size.
    """
    boxes, scores = [], []
    for values, factors, head in _rows_of_heads(outputs, params):
        decoded, objectness = _decoded(values[:, :BOX_VALUES], factors, head, params)
        classes = _logistic(values[:, BOX_VALUES:], factors, params)
        boxes.append(decoded)
        scores.append((objectness[:, None] * classes + (1 << 14)) >> 15)
    return _best(np.concatenate(boxes), np.concatenate(scores), params)


def _rows_of_heads(
    outputs: Sequence[NDArray[Any]], params: Yolo
) -> Iterator[tuple[NDArray[Any], tuple[Factor, Factor, Factor], YoloHead]]:
    """By head: [rows, values] without the zero, factors."""
    used = [0] * len(outputs)
    counts = [sum(h.rows for h in params.heads if h.output == i) for i in range(len(params.outputs))]
    read = [
        numbers.centred("yolo", stored, count * params.row_values).reshape(count, params.row_values)
        for numbers, stored, count in zip(params.outputs, outputs, counts, strict=True)
    ]
    for head in params.heads:
        first = used[head.output]
        used[head.output] += head.rows
        yield read[head.output][first : first + head.rows], params.factors[head.output], head


def _best(boxes: NDArray[np.int64], scores: NDArray[np.int64], params: Yolo) -> list[Detected]:
    flat = scores.reshape(-1)
    candidates = np.flatnonzero(flat > params.above)
    order = candidates[np.argsort(-flat[candidates], kind="stable")][: params.top_k]
    kept: list[Detected] = []
    for index in order:
        if len(kept) == params.keep:
            break
        row, label = divmod(int(index), params.classes)
        others = np.array([each.box for each in kept if each.label == label], np.int64).reshape(-1, 4)
        if not bool(np.any(overlap(boxes[row], others, params.iou))):
            x_min, y_min, x_max, y_max = (int(side) for side in boxes[row])
            kept.append(Detected(label, int(flat[index]), (x_min, y_min, x_max, y_max)))
    return kept


def _decoded(
    values: NDArray[Any], factors: tuple[Factor, Factor, Factor], head: YoloHead, params: Yolo
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Corners [rows, 4], and the objectness of each row."""
    count = len(head.anchors)
    rows = np.arange(head.rows)
    cell, anchor = (
        (rows % (head.height * head.width), rows // (head.height * head.width))
        if params.anchors_first
        else (rows // count, rows % count)
    )
    cells = np.stack([cell % head.width, cell // head.width], axis=1)
    sides = np.array(head.anchors, np.int64)[anchor]
    if params.code == "x":
        shift = scaled(values[:, :2], factors[2], -SHIFT_MOST, SHIFT_MOST)
    else:
        logistic = _logistic(values[:, :2], factors, params)
        scale = params.scale_fixed
        shift = (scale * logistic - ((scale - 4096) << 14) + (1 << 13)) >> 14
    across = np.array([head.width, head.height], np.int64)
    centres = (2 * ((cells << SHIFT_FRAC) + shift) + across // 2) // across
    if params.code == "v5":
        logistic = _logistic(values[:, 2:4], factors, params)
        square = (logistic * logistic + (1 << 14)) >> 15
        halves = (square * sides + (1 << 13)) >> 14
    else:
        halves = half_sides(scaled(values[:, 2:4], factors[0], EXP_LEAST, EXP_MOST), sides)
    low, high = (0, ONE) if params.clip else (BOX_LEAST, BOX_MOST)
    boxes = np.clip(np.concatenate([centres - halves, centres + halves], axis=1), low, high)
    return boxes, _logistic(values[:, 4], factors, params)


def _logistic(values: NDArray[Any], factors: tuple[Factor, Factor, Factor], params: Yolo) -> NDArray[np.int64]:
    if params.activated:
        return scaled(values, factors[1], 0, 1 << 15)
    exponent = scaled(values, factors[0], -_LOGISTIC_MOST, _LOGISTIC_MOST)
    below = -np.abs(exponent)
    power = (((power_of_two(below) << 3) >> -(below >> SHIFT_FRAC)) + 1) >> 1
    divisor = (1 << 16) + power
    dividend = np.where(exponent < 0, power << 15, 1 << 31)
    quotient: NDArray[np.int64] = (dividend + divisor // 2) // divisor
    return quotient
