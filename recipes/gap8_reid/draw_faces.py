"""Draws parametric gray faces: the data on which the default network is trained, calibrated and verified.

An `Identity` holds what makes a person (proportions of the head, eyes, brows, nose, mouth, hair, skin, ...);
a `Nuisance` holds what differs between two pictures of one person (pose, light, expression, camera, the
detector's box). The front view is painted by `face_texture.paint`; here it is turned in space, lit, put
before a background, cropped by the box of an imperfect detector and taken by an imperfect camera.

All is a function of seeds: `identity(seed)` is always the same person, and an equal generator gives an equal
picture (with the same versions of numpy and Pillow; another version may differ by a gray level).

    python draw_faces.py --out held_out --identities 10 --images 2 --seed 2000000
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from face_texture import TEXTURE_HALF_EXTENT, TEXTURE_PIXELS, paint
from PIL import Image

FloatArray = npt.NDArray[np.float32]
ByteArray = npt.NDArray[np.uint8]

BOX_HALF_WIDTH = 1.18
"""Half the side of a perfect detector's box, in head units (half the height of a mean face is 1)."""


@dataclass(frozen=True)
class Identity:
    """A person. Lengths in head units, grays in 0..1, angles in radians; x to the right, y down."""

    seed: int
    skin: float
    head_width: float
    head_height: float
    jaw: float
    chin: float
    eye_y: float
    eye_distance: float
    eye_width: float
    eye_open: float
    eye_tilt: float
    iris: float
    eye_bags: float
    brow_gap: float
    brow_length: float
    brow_thickness: float
    brow_angle: float
    brow_arch: float
    nose_length: float
    nose_width: float
    nose_bridge: float
    nose_height: float
    mouth_y: float
    mouth_width: float
    upper_lip: float
    lower_lip: float
    lip: float
    cheek_folds: float
    ear_size: float
    ear_y: float
    hair: float
    hair_volume: float
    hairline: float
    hair_part: float
    hair_sides: float
    beard: float
    moustache: float
    glasses: float
    glasses_height: float
    freckles: float
    marks: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class Nuisance:
    """What one picture adds to a person. Angles in radians, lengths in head units, grays in 0..1."""

    yaw: float
    pitch: float
    roll: float
    shift_x: float
    shift_y: float
    scale: float
    smile: float
    mouth_open: float
    brow_raise: float
    eye_closing: float
    gaze: float
    wears_glasses: bool
    hair_change: float
    stubble: float
    clothes: float
    light_x: float
    light_y: float
    ambient: float
    gain: float
    gamma: float
    shadow: float
    shadow_angle: float
    shadow_offset: float
    blur: float
    resolution: float
    noise: float
    seed: int


def identity(seed: int) -> Identity:
    """The person with this number (>= 0)."""
    rng = np.random.default_rng([7, seed])

    def around(mean: float, deviation: float) -> float:
        return mean + deviation * float(np.clip(rng.normal(), -2.2, 2.2))

    dark_hair = float(rng.beta(1.2, 2.2))
    return Identity(
        seed=seed,
        skin=float(np.clip(around(0.66, 0.11), 0.3, 0.9)),
        head_width=around(0.77, 0.035),
        head_height=around(1.0, 0.03),
        jaw=around(0.72, 0.07),
        chin=around(1.0, 0.16),
        eye_y=around(-0.10, 0.03),
        eye_distance=around(0.335, 0.022),
        eye_width=around(0.142, 0.014),
        eye_open=around(0.062, 0.011),
        eye_tilt=around(0.04, 0.08),
        iris=float(rng.uniform(0.08, 0.5)),
        eye_bags=abs(around(0.0, 0.12)),
        brow_gap=around(0.17, 0.022),
        brow_length=around(0.2, 0.022),
        brow_thickness=around(0.04, 0.012),
        brow_angle=around(0.02, 0.1),
        brow_arch=around(0.035, 0.018),
        nose_length=around(0.42, 0.04),
        nose_width=around(0.135, 0.02),
        nose_bridge=around(0.16, 0.05),
        nose_height=around(0.3, 0.05),
        mouth_y=around(0.565, 0.03),
        mouth_width=around(0.255, 0.03),
        upper_lip=around(0.035, 0.011),
        lower_lip=around(0.05, 0.013),
        lip=around(0.72, 0.08),
        cheek_folds=abs(around(0.0, 0.14)),
        ear_size=around(0.17, 0.022),
        ear_y=around(0.02, 0.04),
        hair=0.08 + 0.75 * dark_hair,
        hair_volume=around(0.2, 0.06),
        hairline=around(-0.58, 0.07),
        hair_part=float(rng.uniform(-0.5, 0.5)),
        hair_sides=float(rng.choice([0.0, 0.0, 0.25, 0.7, 1.1])) + abs(around(0.0, 0.08)),
        beard=float(max(0.0, rng.normal() * 0.3 - 0.15)),
        moustache=float(max(0.0, rng.normal() * 0.35 - 0.2)),
        glasses=float(rng.choice([0.0, 0.0, 0.0, rng.uniform(0.3, 1.0)])),
        glasses_height=around(0.12, 0.02),
        freckles=abs(around(0.0, 0.035)),
        marks=tuple(
            (float(rng.uniform(-0.5, 0.5)), float(rng.uniform(-0.4, 0.8)), float(rng.uniform(0.012, 0.03)))
            for _ in range(int(rng.integers(0, 4)))
        ),
    )


def nuisance(rng: np.random.Generator) -> Nuisance:
    """One draw of everything that is not the person; always takes the same count of random numbers."""
    gauss = np.clip(rng.normal(size=16), -2.2, 2.2)
    uniform = rng.uniform(size=14)
    return Nuisance(
        yaw=0.24 * float(gauss[0]),
        pitch=0.13 * float(gauss[1]),
        roll=0.17 * float(gauss[2]),
        shift_x=0.085 * float(gauss[3]),
        shift_y=0.085 * float(gauss[4]),
        scale=float(np.exp(0.085 * gauss[5])),
        smile=0.5 * float(gauss[6]),
        mouth_open=0.06 * max(0.0, float(gauss[7]) - 0.3),
        brow_raise=0.018 * float(gauss[8]),
        eye_closing=float(max(0.0, 0.75 * uniform[0] ** 3 - 0.05)),
        gaze=0.3 * float(gauss[9]),
        wears_glasses=bool(uniform[1] < 0.75),
        hair_change=0.035 * float(gauss[10]),
        stubble=0.16 * float(uniform[2] ** 2),
        clothes=0.1 + 0.8 * float(uniform[3]),
        light_x=0.75 * float(gauss[11]),
        light_y=-0.35 + 0.35 * float(gauss[12]),
        ambient=0.3 + 0.4 * float(uniform[4]),
        gain=0.88 * float(np.exp(0.22 * gauss[13])),
        gamma=float(np.exp(0.2 * gauss[14])),
        shadow=0.45 * float(max(0.0, 2 * uniform[5] - 1.2)),
        shadow_angle=2 * np.pi * float(uniform[6]),
        shadow_offset=0.8 * (2 * float(uniform[7]) - 1),
        blur=1.1 * float(uniform[8] ** 2),
        resolution=1.0 - 0.6 * float(uniform[9] ** 2),
        noise=0.002 + 0.028 * float(uniform[10] ** 2),
        seed=int(rng.integers(2**31)),
    )


def draw(
    face: Identity,
    nuisance_rng: np.random.Generator,
    *,
    size: int = 128,
    box_jitter: bool = True,
    align: bool = False,
) -> ByteArray:
    """One picture of a person as the network gets it: [size, size] uint8.

    `box_jitter` keeps the scale and shift of an imperfect detector's box; `align` removes the rotation of the
    head in the image plane. All else of the picture is the same whatever these two say.
    """
    return render(face, nuisance(nuisance_rng), size=size, box_jitter=box_jitter, align=align)


def render(
    face: Identity, look: Nuisance, *, size: int = 128, box_jitter: bool = True, align: bool = False
) -> ByteArray:
    """As `draw`, with the nuisance given: [size, size] uint8."""
    x, y = _image_to_head(look, size, box_jitter, align)
    lit, alpha = head(face, look, x, y, 2 * BOX_HALF_WIDTH / size)
    rng = np.random.default_rng(look.seed)
    scene = alpha * lit + (1 - alpha) * _background(rng, size)
    scene *= _cast_shadow(look, x, y)
    scene = np.clip(scene * look.gain, 0.0, 1.0) ** np.float32(look.gamma)
    return _camera(scene, look, rng)


def head(face: Identity, look: Nuisance, x: FloatArray, y: FloatArray, pixel: float) -> tuple[FloatArray, FloatArray]:
    """The lit head at points x, y of its plane, in head units around the face's centre: grays in 0..1, and how far
    the person covers what is behind. pixel: distance of two neighbouring points.
    """
    texture, coverage = paint(face, look)
    u, v, depth = _turn_back(face, look, x, y)
    return _sample(texture, u, v) * _shade(look, depth, pixel), _sample(coverage, u, v)


def _image_to_head(look: Nuisance, size: int, box_jitter: bool, align: bool) -> tuple[FloatArray, FloatArray]:
    """Where the centre of each pixel lies in the head's plane before it is turned: x, y, [size, size]."""
    half = BOX_HALF_WIDTH * (look.scale if box_jitter else 1.0)
    shift_x, shift_y = (look.shift_x, look.shift_y) if box_jitter else (0.0, 0.0)
    roll = 0.0 if align else look.roll
    line = ((np.arange(size, dtype=np.float32) + 0.5) * (2 / size) - 1) * np.float32(half)
    column, row = line[None, :] + np.float32(shift_x), line[:, None] + np.float32(shift_y)
    cos, sin = np.float32(np.cos(roll)), np.float32(np.sin(roll))
    return cos * column + sin * row, cos * row - sin * column


def _head_depth(face: Identity, u: FloatArray, v: FloatArray) -> FloatArray:
    """Height of the head's surface over its plane: an ellipsoid that flattens outside, with a nose on it."""
    radius = np.square(u * np.float32(0.88 / face.head_width)) + np.square(v * np.float32(0.8))
    dome = np.sqrt(np.maximum(1 - radius, 0.0)) * np.float32(0.75)
    tip = face.eye_y + face.nose_length
    along = np.square((v - np.float32(tip - 0.12)) * np.float32(5.0))
    across = np.square(u * np.float32(0.9 / face.nose_width))
    return dome + np.float32(face.nose_height) * np.exp(-(across + along))


def _turn_back(
    face: Identity, look: Nuisance, x: FloatArray, y: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For each pixel the point u, v of the front view that is seen there, and its depth towards the camera.

    Solves x = u cos(yaw) + z(u, v) sin(yaw), and the same in y with the pitch, by fixed-point steps.
    """
    cos_yaw, sin_yaw = np.float32(np.cos(look.yaw)), np.float32(np.sin(look.yaw))
    cos_pitch, sin_pitch = np.float32(np.cos(look.pitch)), np.float32(np.sin(look.pitch))
    z = _head_depth(face, x, y)
    for _ in range(2):
        u = (x - z * sin_yaw) / cos_yaw
        v = (y - z * sin_pitch) / cos_pitch
        z = _head_depth(face, u, v)
    return u, v, z * (cos_yaw * cos_pitch) - u * sin_yaw - v * sin_pitch


def _sample(plane: FloatArray, u: FloatArray, v: FloatArray) -> FloatArray:
    """Bilinear samples of a texture [T, T] at points in head units, the border continued."""
    step = np.float32(TEXTURE_PIXELS / (2 * TEXTURE_HALF_EXTENT))
    column = np.clip((u + np.float32(TEXTURE_HALF_EXTENT)) * step - 0.5, 0, TEXTURE_PIXELS - 1.001)
    row = np.clip((v + np.float32(TEXTURE_HALF_EXTENT)) * step - 0.5, 0, TEXTURE_PIXELS - 1.001)
    left, top = column.astype(np.int32), row.astype(np.int32)
    right_share, low_share = column - left, row - top
    flat, at = plane.ravel(), top * TEXTURE_PIXELS + left
    upper = flat[at] * (1 - right_share) + flat[at + 1] * right_share
    at += TEXTURE_PIXELS
    lower = flat[at] * (1 - right_share) + flat[at + 1] * right_share
    return upper + (lower - upper) * low_share


def _shade(look: Nuisance, depth: FloatArray, pixel: float) -> FloatArray:
    """Lambert's law with ambient light on the surface `depth`, whose samples are `pixel` head units apart."""
    slope_y, slope_x = np.gradient(depth, np.float32(pixel))
    np.clip(slope_x, -1.6, 1.6, out=slope_x)
    np.clip(slope_y, -1.6, 1.6, out=slope_y)
    light = np.array([look.light_x, look.light_y, 1.0], dtype=np.float32)
    light /= np.linalg.norm(light)
    facing = (light[2] - light[0] * slope_x - light[1] * slope_y) / np.sqrt(
        1 + np.square(slope_x) + np.square(slope_y)
    )
    return np.float32(look.ambient) + np.float32(1.15 * (1 - look.ambient)) * np.maximum(facing, 0.0)


def _cast_shadow(look: Nuisance, x: FloatArray, y: FloatArray) -> FloatArray:
    """A soft-edged shadow over one side of the picture."""
    across = np.float32(np.cos(look.shadow_angle)) * x + np.float32(np.sin(look.shadow_angle)) * y
    covered = np.clip((across - np.float32(look.shadow_offset)) * 4 + 0.5, 0.0, 1.0)
    return 1 - np.float32(look.shadow) * covered


def _background(rng: np.random.Generator, size: int) -> FloatArray:
    """Clutter: a smooth field of grays with a few rectangles on it, [size, size]."""
    cells = int(rng.integers(2, 9))
    coarse = rng.uniform(0, 255, size=(cells, cells)).astype(np.uint8)
    field = Image.fromarray(coarse).resize((size, size), Image.Resampling.BILINEAR)
    for _ in range(int(rng.integers(0, 6))):
        left, top, width, height = (rng.uniform(size=4) * [size, size, size / 2, size / 2]).astype(int)
        field.paste(int(rng.integers(256)), (left, top, left + width + 2, top + height + 2))
    return np.asarray(field, dtype=np.float32) / 255


def _camera(scene: FloatArray, look: Nuisance, rng: np.random.Generator) -> ByteArray:
    """Resolution of a distant face, blur of lens and motion, sensor noise, 8 bits."""
    size = scene.shape[0]
    small = max(16, round(size * look.resolution))
    if small < size:
        plane = Image.fromarray(scene)
        plane = plane.resize((small, small), Image.Resampling.BOX)
        scene = np.asarray(plane.resize((size, size), Image.Resampling.BILINEAR))
    if look.blur > 0.05:
        share = np.float32(look.blur / (1 + 2 * look.blur))
        padded = np.pad(scene, 1, mode="edge")
        rows = padded[1:-1] * (1 - 2 * share) + (padded[:-2] + padded[2:]) * share
        scene = rows[:, 1:-1] * (1 - 2 * share) + (rows[:, :-2] + rows[:, 2:]) * share
    scene = scene + rng.standard_normal(scene.shape, dtype=np.float32) * np.float32(look.noise)
    return np.rint(np.clip(scene, 0.0, 1.0) * 255).astype(np.uint8)


def picture_rng(identity_seed: int, picture: int) -> np.random.Generator:
    """The generator of the nuisance of picture `picture` of a person, as every script here numbers them."""
    return np.random.default_rng([11, identity_seed, picture])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write the images to")
    parser.add_argument("--identities", type=int, default=10, help="number of people")
    parser.add_argument("--images", type=int, default=2, help="pictures of each person")
    parser.add_argument("--seed", type=int, default=0, help="number of the first person")
    parser.add_argument("--format", choices=("pgm", "png"), default="pgm")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for person in range(arguments.seed, arguments.seed + arguments.identities):
        face = identity(person)
        for picture in range(arguments.images):
            pixels = draw(face, picture_rng(person, picture))
            Image.fromarray(pixels).save(arguments.out / f"{person:07d}_{picture:02d}.{arguments.format}")


if __name__ == "__main__":
    main()
