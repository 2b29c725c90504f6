"""Draws the pictures of this recipe: what the detector is calibrated and tested on, who is enrolled, and the frames.

    python draw_pictures.py

| folder | people (seeds) | what |
|---|---|---|
| `calibration/` | from 600,000 | scenes at the detector's size |
| `held_out/` | from 700,000 | the same for its test; `held_out.csv`: picture, class, corners as shares of the sides |
| `enrol/` | 2,000,000 to 2,000,003 | one frame of each, named after the person |
| `frames/` | the four, and others from 2,000,010 on | to search; `frames.csv`: picture, name, corners in pixels |
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from draw_scenes import HEIGHT, WIDTH, Face, scene, shrunk
from numpy.typing import NDArray
from PIL import Image

PEOPLE = {"ada": 2_000_000, "ben": 2_000_001, "cleo": 2_000_002, "dan": 2_000_003}
"""Whom the recipe enrols, by name."""
FRAMES: tuple[tuple[int, ...], ...] = (
    (2_000_000, 2_000_001),
    (2_000_002,),
    (2_000_003, 2_000_010),
    (2_000_001, 2_000_002, 2_000_011),
    (),
    (2_000_012, 2_000_000),
)
"""Who is in each frame."""


def draw_pictures(folder: Path) -> None:
    """All of the above."""
    lines = []
    for kind, first, count in (("calibration", 600_000, 16), ("held_out", 700_000, 16)):
        for index in range(count):
            rng = np.random.default_rng([19, first + index])
            frame, faces = scene(rng, [first + 10 * index + i for i in range(int(rng.integers(0, 4)))])
            _save(folder / kind / f"{index:02}.png", shrunk(frame, 2))
            if kind == "held_out":
                for _, *corners in faces:
                    shares = np.clip(np.array(corners) / [WIDTH, HEIGHT, WIDTH, HEIGHT], 0, 1)
                    lines.append(f"{index:02}.png,0,{','.join(f'{share:.4f}' for share in shares)}\n")
    (folder / "held_out.csv").write_text("".join(lines), encoding="utf-8")
    for name, person in PEOPLE.items():
        frame, _ = scene(np.random.default_rng([23, person]), [person], (80.0, 140.0))
        _save(folder / "enrol" / f"{name}.png", frame)
    names = {person: name for name, person in PEOPLE.items()}
    lines = []
    for index, people in enumerate(FRAMES):
        frame, faces = scene(np.random.default_rng([29, index]), people, (56.0, 120.0))
        _save(folder / "frames" / f"{index}.png", frame)
        lines += [_line(f"{index}.png", names, face) for face in faces]
    (folder / "frames.csv").write_text("".join(lines), encoding="utf-8")


def _line(picture: str, names: dict[int, str], face: Face) -> str:
    person, *corners = face
    return f"{picture},{names.get(person, '')},{','.join(f'{corner:.1f}' for corner in corners)}\n"


def _save(path: Path, pixels: NDArray[np.uint8]) -> None:
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).save(path, optimize=True)


if __name__ == "__main__":
    draw_pictures(Path(__file__).parent)
