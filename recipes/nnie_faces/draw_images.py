"""Draws the images that the NNIE recipes calibrate and verify on: `calibration/` and, by person, `held_out/`.

python draw_images.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "gap8_reid"))

from draw_faces import draw, identity, picture_rng  # noqa: E402

FACE_SIZE = 112
CALIBRATION_PERSON, CALIBRATION_PEOPLE = 3_000_000, 64
HELD_OUT_PERSON, HELD_OUT_PEOPLE, HELD_OUT_PICTURES = 3_100_000, 12, 3


def main() -> None:
    for person in range(CALIBRATION_PERSON, CALIBRATION_PERSON + CALIBRATION_PEOPLE):
        save(person, 0, HERE / "calibration" / f"{person}.pgm")
    for person in range(HELD_OUT_PERSON, HELD_OUT_PERSON + HELD_OUT_PEOPLE):
        for picture in range(HELD_OUT_PICTURES):
            save(person, picture, HERE / "held_out" / str(person) / f"{picture}.pgm")


def save(person: int, picture: int, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(draw(identity(person), picture_rng(person, picture), size=FACE_SIZE)).save(path)


if __name__ == "__main__":
    main()
