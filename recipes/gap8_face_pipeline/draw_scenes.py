"""Draws gray camera frames with drawn people in them, and tells where their faces are.

The people are those of `../gap8_reid/draw_faces.py`: nobody is photographed. All is a function of seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gap8_reid"))

from draw_faces import BOX_HALF_WIDTH, Nuisance, head, identity, nuisance

HEIGHT, WIDTH = 240, 320
SMALLEST, LARGEST = 36.0, 190.0
"""Sides of a face's box in pixels."""
Face = tuple[int, float, float, float, float]
"""Person, x_min, y_min, x_max, y_max in pixels: the box that a perfect detector gives, a square."""


def scene(
    rng: np.random.Generator, people: Sequence[int], sides: tuple[float, float] = (SMALLEST, LARGEST)
) -> tuple[NDArray[np.uint8], list[Face]]:
    """[HEIGHT, WIDTH] of gray, and the faces of those people who found a place in it."""
    plane = _ground(rng)
    look = nuisance(rng)
    faces: list[Face] = []
    for person, side in zip(people, sorted(np.exp(rng.uniform(*np.log(sides), len(people)))), strict=True):
        own = nuisance(rng)
        for _ in range(20):
            x, y = rng.uniform(side * 0.35, WIDTH - side * 0.35), rng.uniform(side * 0.4, HEIGHT - side * 0.4)
            box = (x - side / 2, y - side / 2, x + side / 2, y + side / 2)
            if not any(_near(box, other[1:]) for other in faces):
                _put(plane, person, own, x, y, side)
                faces.append((person, *map(float, box)))
                break
    return _camera(plane, look, rng), faces


def _near(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether two boxes meet, each a quarter wider and longer below, where the shoulders are."""
    reach_a, reach_b = 0.25 * (a[2] - a[0]), 0.25 * (b[2] - b[0])
    across = min(a[2] + reach_a, b[2] + reach_b) > max(a[0] - reach_a, b[0] - reach_b)
    along = min(a[3] + 2 * reach_a, b[3] + 2 * reach_b) > max(a[1] - reach_a, b[1] - reach_b)
    return across and along


def _put(plane: NDArray[np.float32], person: int, look: Nuisance, x: float, y: float, side: float) -> None:
    """Draws a person into a scene; the face's box is centred at x, y."""
    unit = side / (2 * BOX_HALF_WIDTH)
    left, right = (int(np.clip(x + reach * unit, 0, WIDTH)) for reach in (-1.6, 1.6))
    top, bottom = (int(np.clip(y + reach * unit, 0, HEIGHT)) for reach in (-1.6, 2.2))
    column = (np.arange(left, right, dtype=np.float32) + 0.5 - np.float32(x)) / np.float32(unit)
    row = (np.arange(top, bottom, dtype=np.float32) + 0.5 - np.float32(y)) / np.float32(unit)
    cos, sin = np.float32(np.cos(look.roll)), np.float32(np.sin(look.roll))
    across = cos * column[None, :] + sin * row[:, None]
    along = cos * row[:, None] - sin * column[None, :]
    lit, alpha = head(identity(person), look, across, along, 1 / unit)
    part = plane[top:bottom, left:right]
    part += alpha * (np.clip(lit * np.float32(look.gain), 0, 1) ** np.float32(look.gamma) - part)


def _ground(rng: np.random.Generator) -> NDArray[np.float32]:
    """What is behind: uneven light, things of all sizes with straight and round edges, some like an oval face."""
    cells = rng.integers(2, 12, 2)
    low, high = np.sort(rng.uniform(0, 255, 2))
    coarse = rng.uniform(low, high + 1, cells).astype(np.float32)
    picture = Image.fromarray(
        np.asarray(Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR)).astype(np.uint8)
    )
    pen = ImageDraw.Draw(picture)
    for _ in range(int(rng.integers(0, 26))):
        side = float(np.exp(rng.uniform(np.log(6), np.log(200))))
        x, y, stretch = rng.uniform(-20, WIDTH), rng.uniform(-20, HEIGHT), float(np.exp(rng.normal(0, 0.5)))
        box = (x, y, x + side * stretch, y + side)
        gray, edge = int(rng.integers(256)), int(rng.integers(256))
        kind = int(rng.integers(5))
        if kind == 0:
            pen.rectangle(box, fill=gray, outline=edge)
        elif kind == 1:
            pen.ellipse(box, fill=gray, outline=edge)
        elif kind == 2:
            pen.polygon(
                [(float(x + a * side), float(y + b * side)) for a, b in rng.uniform(-0.5, 1, (4, 2))], fill=gray
            )
        elif kind == 3:
            pen.line((x, y, *(float(v) for v in rng.uniform(0, WIDTH, 2))), fill=gray, width=int(rng.integers(1, 9)))
        else:  # an oval with dark spots at any places
            pen.ellipse(box, fill=gray)
            for a, b in rng.uniform(0.15, 0.85, (4, 2)):
                spot = side * float(rng.uniform(0.04, 0.14))
                at = x + a * side * stretch, y + b * side
                pen.ellipse((at[0] - spot, at[1] - spot, at[0] + spot, at[1] + spot), fill=edge)
    return np.asarray(picture, np.float32) / 255


def _camera(plane: NDArray[np.float32], look: Nuisance, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Blur, sensor noise, 8 bits."""
    share = np.float32(look.blur / (1 + 2 * look.blur))
    padded = np.pad(plane, 1, mode="edge")
    rows = padded[1:-1] * (1 - 2 * share) + (padded[:-2] + padded[2:]) * share
    blurred = rows[:, 1:-1] * (1 - 2 * share) + (rows[:, :-2] + rows[:, 2:]) * share
    noisy = blurred + rng.standard_normal(blurred.shape, dtype=np.float32) * np.float32(look.noise)
    return np.rint(np.clip(noisy, 0.0, 1.0) * 255).astype(np.uint8)


def shrunk(frame: NDArray[np.uint8], factor: int) -> NDArray[np.uint8]:
    """The mean of factor x factor pixels each, rounded half up: what the pipeline feeds its detector."""
    height, width = frame.shape[0] // factor, frame.shape[1] // factor
    blocks = frame.reshape(height, factor, width, factor).astype(np.int64).sum(axis=(1, 3))
    return ((2 * blocks + factor * factor) // (2 * factor * factor)).astype(np.uint8)
