"""Detections of a network that gives boxes and scores as its layers compute them, by what the recipe says of them.

A head's boxes are moves of anchors, decoded as an SSD's DetectionOutput does with CENTER_SIZE: the centre moves by
the anchor's size times the first variance, the size grows by exp of the second. Heads are [4 * anchors, H, W] and
[scores, H, W], or rows [n, 4] and [n, classes] of all maps in order, place by place, anchor by anchor. A head without
anchors gives corners, as shares of width and height.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.custom_ops import DetectionOutput
from nnkit.errors import RecipeError
from nnkit.recipe.tasks import AnchorMap, DetectionDecode, DetectionHead

Array = NDArray[np.float32]


@dataclass(frozen=True)
class DecodedBoxes:
    """Reads the detections out of a network's outputs. size: height and width of its image."""

    decode: DetectionDecode
    size: tuple[int, int]

    def __call__(self, values: Mapping[str, NDArray[Any]]) -> Array:
        """[1, 1, n, 7] rows of image, class, score and corners, as `DetectionOutput` gives them."""
        heads = [self._read(head, values) for head in self.decode.heads]
        moves, scores, anchors = (np.concatenate(parts) for parts in zip(*heads, strict=True))
        centre, side = self.decode.variances
        if not self.decode.heads[0].anchors:
            centre = side = 1.0
        variances = np.tile(np.asarray([centre, centre, side, side], np.float32), len(anchors))
        layer = DetectionOutput(
            num_classes=scores.shape[1],
            background_label_id=-1 if self.decode.background is None else self.decode.background,
            nms_threshold=self.decode.nms,
            code_type="CENTER_SIZE" if self.decode.heads[0].anchors else "CORNER",
            keep_top_k=self.decode.keep,
            confidence_threshold=self.decode.least_score,
        )
        priors = np.stack([anchors.reshape(-1), variances])[np.newaxis]
        return layer.run(moves.reshape(1, -1), scores.reshape(1, -1), priors)[0]

    def check(self, shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
        """Raises RecipeError where the outputs are not as the recipe has it. shapes: of the outputs, no batch."""
        for head in self.decode.heads:
            for name in (head.boxes, head.scores):
                if name not in shapes:
                    raise RecipeError(
                        f"the network has no output '{name}'",
                        where=where,
                        remedy=f"write one of {', '.join(shapes)}",
                    )
            boxes, scores = (math.prod(shapes[name]) for name in (head.boxes, head.scores))
            count = self._anchor_count(head) if head.anchors else boxes // 4
            if boxes != 4 * count or scores % count:
                maps = f" for anchors on maps of {self._maps(head)}" if head.anchors else ""
                raise RecipeError(
                    f"{boxes} values in '{head.boxes}' and {scores} in '{head.scores}' are not 4 and as many as "
                    f"classes for each of {count} boxes{maps}",
                    where=where,
                    remedy="name the outputs of one head, and the strides and anchors that it was trained with",
                )

    def _maps(self, head: DetectionHead) -> str:
        return ", ".join("{} x {}".format(*self._map_size(anchors)) for anchors in head.anchors)

    def _map_size(self, anchors: AnchorMap) -> tuple[int, int]:
        height, width = (-(-side // stride) for side, stride in zip(self.size, _strides(anchors), strict=True))
        return height, width

    def _anchor_count(self, head: DetectionHead) -> int:
        return sum(math.prod(self._map_size(each)) * len(each.sides) for each in head.anchors)

    def _read(self, head: DetectionHead, values: Mapping[str, NDArray[Any]]) -> tuple[Array, Array, Array]:
        """Moves [n, 4], scores [n, classes], anchors' corners [n, 4], all in one order."""
        boxes, scores = (np.asarray(values[name], np.float32) for name in (head.boxes, head.scores))
        if not head.anchors:
            moves = boxes.reshape(-1, 4)
            return moves, self._probabilities(scores.reshape(len(moves), -1)), np.zeros_like(moves)
        anchors = np.concatenate([self._anchors(each) for each in head.anchors])
        each, size = head.anchors[0], self._map_size(head.anchors[0])
        count = len(each.sides)
        by_class = self.decode.scores == "class_first"
        if _is_map(boxes.shape, 4 * count, size) and len(head.anchors) == 1:
            boxes = boxes.reshape(count, 4, *size).transpose(2, 3, 0, 1)
        if len(head.anchors) == 1 and _is_map(scores.shape, scores.size // math.prod(size), size):
            shape, axes = ((-1, count), (2, 3, 1, 0)) if by_class else ((count, -1), (2, 3, 0, 1))
            scores = scores.reshape(*shape, *size).transpose(axes)
        return boxes.reshape(-1, 4), self._probabilities(scores.reshape(len(anchors), -1)), anchors

    def _anchors(self, anchors: AnchorMap) -> Array:
        """Corners [height * width * anchors, 4] as shares of the image's sides."""
        places = [
            np.arange(count) * stride + (stride / 2.0 if self.decode.centre is None else self.decode.centre)
            for count, stride in zip(self._map_size(anchors), _strides(anchors), strict=True)
        ]
        y, x = np.meshgrid(*places, indexing="ij")
        sides = np.asarray([each if isinstance(each, tuple) else (each, each) for each in anchors.sides], np.float64)
        image = np.asarray([self.size[1], self.size[0]], np.float64)
        centres = np.stack([x, y], axis=-1)[:, :, np.newaxis] / image  # [H, W, 1, 2]
        sides = sides / image
        if self.decode.clip_anchors:
            centres, sides = np.clip(centres, 0.0, 1.0), np.clip(sides, 0.0, 1.0)
        corners = np.concatenate([centres - sides / 2.0, centres + sides / 2.0], axis=-1)
        return corners.reshape(-1, 4).astype(np.float32)

    def _probabilities(self, scores: Array) -> Array:
        if self.decode.activation == "sigmoid":
            return np.asarray(1.0 / (1.0 + np.exp(-scores)), np.float32)
        if self.decode.activation == "softmax":
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)
        return scores


def _strides(anchors: AnchorMap) -> tuple[int, int]:
    """Down and across."""
    return anchors.stride if isinstance(anchors.stride, tuple) else (anchors.stride, anchors.stride)


def _is_map(shape: Sequence[int], channels: int, size: tuple[int, int]) -> bool:
    """Whether an output is [channels, H, W], with or without a batch axis."""
    return tuple(shape[-2:]) == size and math.prod(shape[:-2]) == channels
