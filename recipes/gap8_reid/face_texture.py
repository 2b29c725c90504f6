"""Paints the front view of a parametric face: a gray texture and its coverage, before pose and light.

Everything is in head units (x to the right, y down, the middle of the face at the origin, half the height of
a mean face 1). Shapes are drawn with Pillow on a canvas of twice the final resolution; soft shades are
products of two one-dimensional Gaussians.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from draw_faces import Identity, Nuisance

FloatArray = npt.NDArray[np.float32]

TEXTURE_PIXELS = 160
"""Side of the texture, in pixels."""
TEXTURE_HALF_EXTENT = 1.6
"""Half the side of the texture, in head units."""

_CANVAS_PIXELS = 2 * TEXTURE_PIXELS
_CANVAS_PER_UNIT = _CANVAS_PIXELS / (2 * TEXTURE_HALF_EXTENT)
_LINE = (((np.arange(TEXTURE_PIXELS) + 0.5) * (2 / TEXTURE_PIXELS) - 1) * TEXTURE_HALF_EXTENT).astype(np.float32)
_TURN = np.linspace(0, 2 * np.pi, 48, endpoint=False)
_UNIT_CIRCLE = np.stack([np.cos(_TURN), np.sin(_TURN)], axis=1)


class _Canvas:
    """A gray canvas that is drawn on in head units and in grays of 0..1."""

    def __init__(self, gray: float) -> None:
        self._image = Image.new("L", (_CANVAS_PIXELS, _CANVAS_PIXELS), _byte(gray))
        self._draw = ImageDraw.Draw(self._image)

    def polygon(self, points: npt.NDArray[np.float64], gray: float) -> None:
        """Fills the polygon with the corners `points` [n, 2]."""
        self._draw.polygon(_to_canvas(points), fill=_byte(gray))

    def ellipse(self, x: float, y: float, half_width: float, half_height: float, gray: float) -> None:
        """Fills an upright ellipse."""
        self.polygon(_UNIT_CIRCLE * [half_width, half_height] + [x, y], gray)

    def line(self, points: npt.NDArray[np.float64], width: float, gray: float) -> None:
        """Draws the line through `points` [n, 2], `width` head units thick."""
        thickness = max(1, round(width * _CANVAS_PER_UNIT))
        self._draw.line(_to_canvas(points), fill=_byte(gray), width=thickness, joint="curve")

    def plane(self) -> FloatArray:
        """The picture at the texture's resolution: [TEXTURE_PIXELS, TEXTURE_PIXELS], 0..1."""
        return np.asarray(self._image.reduce(2), dtype=np.float32) / 255


def paint(face: Identity, look: Nuisance) -> tuple[FloatArray, FloatArray]:
    """The gray of the front view and its coverage (1 on the person, 0 on the background).

    Both are [TEXTURE_PIXELS, TEXTURE_PIXELS] float32 over +-TEXTURE_HALF_EXTENT head units.
    """
    canvas, coverage = _Canvas(0.0), _Canvas(0.0)
    outline = _outline(face)
    _body(face, look, outline, canvas, coverage)
    skin = canvas.plane() * _complexion(face, look)
    features, opacity = _Canvas(0.0), _Canvas(0.0)
    for side in (-1.0, 1.0):
        _eye(face, look, side, features, opacity)
        _brow(face, look, side, features, opacity)
    _nose(face, features, opacity)
    _mouth(face, look, features, opacity)
    for x, y, radius in face.marks:
        _both(features, opacity, "ellipse", x, y, radius, radius, gray=face.skin * 0.5, cover=0.85)
    _hair(face, look, outline, features, opacity, coverage)
    if face.glasses > 0 and look.wears_glasses:
        _glasses(face, features, opacity)
    over, share = features.plane(), opacity.plane()
    return skin + (over - skin) * share, coverage.plane()


def _byte(gray: float) -> int:
    return int(min(max(gray, 0.0), 1.0) * 255 + 0.5)


def _to_canvas(points: npt.NDArray[np.float64]) -> list[float]:
    scaled: list[float] = ((points + TEXTURE_HALF_EXTENT) * _CANVAS_PER_UNIT).ravel().tolist()
    return scaled


def _both(features: _Canvas, opacity: _Canvas, shape: str, *where: object, gray: float, cover: float) -> None:
    """Draws one shape into the picture (`gray`) and into its opacity (`cover`)."""
    getattr(features, shape)(*where, gray)
    getattr(opacity, shape)(*where, cover)


def _soft(x: float, y: float, half_width: float, half_height: float) -> FloatArray:
    """A Gaussian blob of height 1 on the texture's grid."""
    across = np.exp(-np.square((_LINE - np.float32(x)) / np.float32(half_width)))
    along = np.exp(-np.square((_LINE - np.float32(y)) / np.float32(half_height)))
    return np.outer(along, across)


def _outline(face: Identity) -> npt.NDArray[np.float64]:
    """The contour of skull and jaw: an ellipse whose lower half narrows to the chin, [48, 2]."""
    cos, sin = _UNIT_CIRCLE[:, 0], _UNIT_CIRCLE[:, 1]
    low = np.maximum(sin, 0.0)
    width = face.head_width * (1 - (1 - face.jaw) * low ** (1.6 * face.chin))
    squareness = np.where(sin > 0, 0.85, 0.9)
    return np.stack([width * np.sign(cos) * np.abs(cos) ** squareness, face.head_height * 1.02 * sin], axis=1)


def _body(
    face: Identity,
    look: Nuisance,
    outline: npt.NDArray[np.float64],
    canvas: _Canvas,
    coverage: _Canvas,
) -> None:
    """Shoulders, neck, ears and the bare head."""
    neck = 0.55 * face.head_width
    shoulders = np.array([[-1.6, 1.6], [-1.5, 1.3], [-neck, 1.12], [neck, 1.12], [1.5, 1.3], [1.6, 1.6]])
    canvas.polygon(shoulders, look.clothes)
    coverage.polygon(shoulders, 1.0)
    throat = np.array([[-neck, 0.6], [neck, 0.6], [neck, 1.25], [0.0, 1.4], [-neck, 1.25]])
    canvas.polygon(throat, face.skin * 0.72)
    coverage.polygon(throat, 1.0)
    for side in (-1.0, 1.0):
        where = (side * face.head_width * 0.99, face.ear_y, 0.55 * face.ear_size, face.ear_size)
        canvas.ellipse(*where, face.skin * 0.9)
        coverage.ellipse(*where, 1.0)
        canvas.ellipse(where[0], where[1], 0.25 * face.ear_size, 0.6 * face.ear_size, face.skin * 0.68)
    canvas.polygon(outline, face.skin)
    coverage.polygon(outline, 1.0)


def _complexion(face: Identity, look: Nuisance) -> FloatArray:
    """Factor on the gray of the skin: its own texture, eye sockets, folds, beard; about 1."""
    rng = np.random.default_rng([13, face.seed])
    blotches = rng.normal(128, 9, size=(7, 7)).clip(0, 255).astype(np.uint8)
    size = (TEXTURE_PIXELS, TEXTURE_PIXELS)
    factor = np.asarray(Image.fromarray(blotches).resize(size, Image.Resampling.BICUBIC), np.float32) / 128
    if face.freckles > 0.02:
        fine = rng.normal(size=(TEXTURE_PIXELS // 2, TEXTURE_PIXELS // 2)).astype(np.float32)
        fine = np.minimum(fine.repeat(2, 0).repeat(2, 1), 0.0)
        factor += np.float32(face.freckles) * fine * _soft(0.0, face.eye_y + 0.35, 0.5, 0.3)
    nose_tip = face.eye_y + face.nose_length
    for side in (-1.0, 1.0):
        eye = side * face.eye_distance
        factor *= 1 - np.float32(0.16) * _soft(eye, face.eye_y - 0.04, 0.2, 0.12)
        factor *= 1 - np.float32(face.eye_bags) * _soft(eye, face.eye_y + 0.13, 0.13, 0.05)
        fold = face.cheek_folds * (1 + 0.5 * look.smile)
        factor *= 1 - np.float32(fold) * _soft(side * 0.27, nose_tip + 0.1, 0.05, 0.14)
        bridge = side * (0.055 + 0.2 * face.nose_width)
        factor *= 1 - np.float32(face.nose_bridge) * _soft(bridge, nose_tip - 0.22, 0.045, 0.2)
    beard = min(face.beard + (look.stubble if face.beard + face.moustache > 0 else 0.0), 0.85)
    if beard > 0:
        factor *= 1 - np.float32(beard) * _soft(0.0, face.head_height * 0.92, 0.62, 0.3)
    if face.moustache > 0:
        lip = face.mouth_y - face.upper_lip - 0.055
        factor *= 1 - np.float32(min(face.moustache, 0.8)) * _soft(0.0, lip, 0.22, 0.055)
    return factor


def _eye(face: Identity, look: Nuisance, side: float, features: _Canvas, opacity: _Canvas) -> None:
    """Almond of the white, iris, pupil and the line of the upper lid."""
    opening = face.eye_open * (1 - look.eye_closing) + 0.004
    centre = np.array([side * face.eye_distance, face.eye_y])
    cos, sin = np.cos(face.eye_tilt), np.sin(face.eye_tilt)
    turn = np.array([[cos, -side * sin], [side * sin, cos]])
    almond = _UNIT_CIRCLE * [face.eye_width, opening]
    almond[:, 1] *= 1 - 0.35 * np.abs(_UNIT_CIRCLE[:, 0]) ** 3
    almond = almond @ turn + centre
    _both(features, opacity, "polygon", almond, gray=min(1.0, face.skin * 0.35 + 0.6), cover=1.0)
    radius = min(face.eye_width * 0.5, face.eye_open * 1.08)
    at = centre[0] + look.gaze * 0.5 * face.eye_width
    height = min(radius, opening)
    _both(features, opacity, "ellipse", at, centre[1], radius, height, gray=face.iris, cover=1.0)
    pupil = 0.45 * radius
    _both(features, opacity, "ellipse", at, centre[1], pupil, min(pupil, height), gray=0.03, cover=1.0)
    lid = almond[_UNIT_CIRCLE[:, 1] <= 0]
    _both(features, opacity, "line", lid, 0.018, gray=face.skin * 0.3, cover=0.9)
    crease = lid - [0.0, 0.035]
    _both(features, opacity, "line", crease, 0.012, gray=face.skin * 0.6, cover=0.6)


def _brow(face: Identity, look: Nuisance, side: float, features: _Canvas, opacity: _Canvas) -> None:
    """A tapered arc over an eye, darker than the hair on light heads."""
    along = np.linspace(-1.0, 1.0, 9)
    x = side * (face.eye_distance + face.brow_length * along)
    middle = (
        face.eye_y
        - face.brow_gap
        - look.brow_raise
        - face.brow_arch * (1 - along**2)
        + face.brow_angle * face.brow_length * -along
    )
    half = 0.5 * face.brow_thickness * (1.1 - 0.6 * np.maximum(along, 0.0))
    upper, lower = np.stack([x, middle - half], axis=1), np.stack([x, middle + half], axis=1)
    gray = min(face.hair * 0.75, face.skin * 0.75)
    _both(features, opacity, "polygon", np.concatenate([upper, lower[::-1]]), gray=gray, cover=0.9)


def _nose(face: Identity, features: _Canvas, opacity: _Canvas) -> None:
    """Nostrils and the line of the wings."""
    tip = face.eye_y + face.nose_length
    for side in (-1.0, 1.0):
        where = (side * face.nose_width * 0.5, tip + 0.015, face.nose_width * 0.26, 0.022)
        _both(features, opacity, "ellipse", *where, gray=face.skin * 0.3, cover=0.85)
        wing = np.array([[1.0, -0.07], [1.12, -0.02], [1.0, 0.025]]) * [side * face.nose_width, 1.0]
        _both(features, opacity, "line", np.add(wing, [0.0, tip]), 0.018, gray=face.skin * 0.6, cover=0.7)


def _mouth(face: Identity, look: Nuisance, features: _Canvas, opacity: _Canvas) -> None:
    """Two lips whose corners rise with a smile, and the dark between them when the mouth is open."""
    along = np.linspace(-1.0, 1.0, 13)
    width = face.mouth_width * (1 + 0.12 * look.smile)
    x = width * along
    corners = -0.05 * look.smile * along**2
    bow = face.upper_lip * (1 - along**2) * (1 - 0.35 * np.exp(-((along / 0.18) ** 2)))
    gap = look.mouth_open * (1 - along**2)
    middle = face.mouth_y + corners
    upper = np.stack([x, middle - bow - 0.5 * gap], axis=1)
    upper_edge = np.stack([x, middle - 0.5 * gap], axis=1)
    lower_edge = np.stack([x, middle + 0.5 * gap], axis=1)
    lower = np.stack([x, middle + face.lower_lip * (1 - along**2) + 0.5 * gap], axis=1)
    tone = face.skin * face.lip
    for edge, gray in (
        (np.concatenate([upper, upper_edge[::-1]]), tone * 0.88),
        (np.concatenate([lower_edge, lower[::-1]]), tone),
    ):
        _both(features, opacity, "polygon", edge, gray=gray, cover=0.9)
    if look.mouth_open > 0.01:
        inside = np.concatenate([upper_edge, lower_edge[::-1]])
        _both(features, opacity, "polygon", inside, gray=0.08, cover=1.0)
    _both(features, opacity, "line", upper_edge, 0.014, gray=face.skin * 0.35, cover=0.85)


def _hair(
    face: Identity,
    look: Nuisance,
    outline: npt.NDArray[np.float64],
    features: _Canvas,
    opacity: _Canvas,
    coverage: _Canvas,
) -> None:
    """The cap of hair between the hairline and the top, and the hair that falls beside the face."""
    volume = max(0.03, face.hair_volume + look.hair_change)
    upper = outline[_UNIT_CIRCLE[:, 1] <= 0]
    upper = upper[np.argsort(upper[:, 0])]
    top = upper * [1 + 0.45 * volume, 1 + volume]
    x = upper[::-1, 0] * 0.98
    away = np.abs(x / face.head_width - face.hair_part)
    line = face.hairline + 0.6 * look.hair_change - 0.08 * np.exp(-((away / 0.25) ** 2))
    line = line + np.maximum(np.abs(x) / face.head_width - 0.72, 0.0) * 1.6
    fringe = np.stack([x, np.minimum(line, 0.02)], axis=1)
    cap = np.concatenate([top, fringe])
    _both(features, opacity, "polygon", cap, gray=face.hair, cover=1.0)
    coverage.polygon(cap, 1.0)
    if face.hair_sides > 0.2:
        end = -0.25 + face.hair_sides
        heights = np.linspace(-0.75, end, 8)
        bulge = np.sqrt(np.maximum(1 - np.square(np.minimum(heights, 0.0) / 1.25), 0.05))
        outer = face.head_width * bulge * (1.06 + 0.5 * volume)
        inner = face.head_width * bulge * (0.95 - 0.06 * np.cos(3 * heights + face.hair_part))
        for side in (-1.0, 1.0):
            edges = [np.stack([side * outer, heights], axis=1), np.stack([side * inner, heights], axis=1)[::-1]]
            strand = np.concatenate(edges)
            _both(features, opacity, "polygon", strand, gray=face.hair * 0.9, cover=1.0)
            coverage.polygon(strand, 1.0)
    gloss = np.array([[-0.35, -0.95], [0.0, -1.0], [0.35, -0.95]]) * [1.0, face.head_height]
    _both(features, opacity, "line", gloss, 0.06, gray=min(1.0, face.hair + 0.1), cover=1.0)


def _glasses(face: Identity, features: _Canvas, opacity: _Canvas) -> None:
    """Two frames, a bridge and the temples; round or square as `glasses` says."""
    square = 0.35 + 0.65 * (1 - face.glasses)
    rim = np.sign(_UNIT_CIRCLE) * np.abs(_UNIT_CIRCLE) ** square
    rim = np.concatenate([rim, rim[:1]]) * [1.45 * face.eye_width, face.glasses_height]
    y = face.eye_y + 0.02
    for side in (-1.0, 1.0):
        where = (np.add(rim, [side * face.eye_distance, y]), 0.02 + 0.02 * face.glasses)
        _both(features, opacity, "line", *where, gray=0.12, cover=0.95)
        temple = np.array([[side * (face.eye_distance + 1.45 * face.eye_width), y], [side * face.head_width, y]])
        _both(features, opacity, "line", temple, 0.03, gray=0.12, cover=0.95)
    inner = face.eye_distance - 1.45 * face.eye_width
    bridge = np.array([[-inner, y - 0.02], [0.0, y - 0.05], [inner, y - 0.02]])
    _both(features, opacity, "line", bridge, 0.025, gray=0.12, cover=0.95)
