"""Draws scenes of discs, squares and triangles of several sizes, light or dark, on an uneven ground."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

SIDE = 96
CLASSES = ("disc", "square", "triangle")
SMALLEST, LARGEST = 12.0, 44.0
_FINER = 4  # shapes are drawn larger and made smaller, for smooth edges
Shape = tuple[int, float, float, float, float]
"""Class (1 is a disc), x_min, y_min, x_max, y_max in pixels."""


def scene(rng: np.random.Generator) -> tuple[NDArray[np.uint8], list[Shape]]:
    """[SIDE, SIDE] of gray and its shapes, up to four, which do not touch."""
    coarse = rng.uniform(70, 170, (rng.integers(2, 6), rng.integers(2, 6))).astype(np.float32)
    ground = np.asarray(Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC))
    picture = Image.fromarray(np.clip(ground, 0, 255).astype(np.uint8))
    shapes: list[Shape] = []
    for _ in range(int(rng.integers(1, 5))):
        side = float(np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST))))
        centre = rng.uniform(side / 2, SIDE - side / 2, 2)
        kind, angle, light = int(rng.integers(3)), float(rng.uniform(-0.4, 0.4)), bool(rng.integers(2))
        points = _outline(kind, side, angle) + centre
        low, high = points.min(axis=0), points.max(axis=0)
        if low.min() < 0 or high.max() > SIDE or any(_near(low, high, other) for other in shapes):
            continue
        level = int(rng.integers(200, 256) if light else rng.integers(0, 45))
        mask = Image.new("L", (SIDE * _FINER, SIDE * _FINER))
        ImageDraw.Draw(mask).polygon([(x * _FINER, y * _FINER) for x, y in points.tolist()], fill=255)
        picture.paste(level, mask=mask.resize((SIDE, SIDE), Image.Resampling.BOX))
        shapes.append((kind + 1, float(low[0]), float(low[1]), float(high[0]), float(high[1])))
    noisy = np.asarray(picture, np.float64) + rng.normal(0, rng.uniform(2, 9), (SIDE, SIDE))
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8), shapes


def _outline(kind: int, side: float, angle: float) -> NDArray[np.float64]:
    """Corners [n, 2] around the origin."""
    corners, first = ((32, 0.0), (4, math.pi / 4), (3, -math.pi / 2))[kind]
    turns = first + (0 if kind == 0 else angle) + 2 * math.pi * np.arange(corners) / corners
    radius = side / 2 * (1.0, 1.2, 1.15)[kind]
    return radius * np.stack([np.cos(turns), np.sin(turns)], axis=1)


def _near(low: NDArray[np.float64], high: NDArray[np.float64], other: Shape) -> bool:
    return bool((low - 3 < other[3:]).all() and (high + 3 > other[1:3]).all())
