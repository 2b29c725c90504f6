"""Images of every format that is read, by bytes and by their headers, through preprocessing."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from random import Random

import numpy as np

from fuzz.damage import LARGEST_INPUT_BYTES, damaged_bytes

Seeds = dict[str, bytes]


def seeds(folder: Path) -> Seeds:
    """Whole files by name."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3)).astype(np.uint8)
    files: Seeds = {}
    for mode in ("RGB", "L", "P", "1", "RGBA"):
        image = Image.fromarray(pixels).convert(mode)
        for suffix in ("png", "bmp", "jpg", "pgm", "ppm", "gif", "tiff", "webp"):
            stream = io.BytesIO()
            try:
                image.save(stream, {"jpg": "JPEG", "pgm": "PPM", "ppm": "PPM"}.get(suffix, suffix.upper()))
            except (OSError, ValueError, KeyError):
                continue  # a format that has no such mode
            files[f"{mode}.{suffix}"] = stream.getvalue()
    return files


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged image as a network's input."""
    from nnkit.preprocess import load_input
    from nnkit.preprocess.settings import Preprocess, Resize

    name = chance.choice(sorted(given))
    path = folder / name
    data = given[name]
    for _ in range(chance.choice((1, 1, 2, 3))):
        data = _other_png(data, chance) if name.endswith("png") and len(data) > 33 else damaged_bytes(data, chance)
    path.write_bytes(data[:LARGEST_INPUT_BYTES])
    color = chance.choice(("gray", "rgb"))
    channels = 1 if color == "gray" else 3
    load_input(path, Preprocess(color=color, resize=Resize(8, 8, "bilinear")), (1, channels, 8, 8))


def _other_png(data: bytes, chance: Random) -> bytes:
    """A field of the header replaced and its check sum made right again; half of the time bytes."""
    if chance.random() < 0.5:
        return damaged_bytes(data, chance)
    header = bytearray(data[12:29])
    at = chance.choice((4, 8))
    if chance.random() < 0.7:
        header[at : at + 4] = chance.choice((0, 1, 9, 60000, 1 << 20, 0xFFFFFFFF)).to_bytes(4, "big")
    else:
        header[chance.randrange(12, 17)] = chance.randrange(256)
    return data[:12] + bytes(header) + zlib.crc32(header).to_bytes(4, "big") + data[33:]
