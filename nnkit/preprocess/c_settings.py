"""`preprocess` as the C of a board has it: the initialiser of an `nnkit_preprocess`, and the files that it needs."""

from __future__ import annotations

from functools import cache

from nnkit.generated import packaged_text
from nnkit.preprocess.settings import CropBox, Preprocess

FILES = ("nnkit_preprocess.h", "nnkit_preprocess.c")


def preprocess_sources() -> dict[str, str]:
    """The C by file name."""
    return {name: packaged_text("nnkit", "c", "preprocess", name) for name in FILES}


def preprocess_initialiser(given: Preprocess, height: int, width: int, *, channels_last: bool = False) -> str:
    """The fields of an `nnkit_preprocess`, without braces, for an input of that size, [C, H, W] or [H, W, C]."""
    crop, box = "NNKIT_CROP_NONE", CropBox(0, 0, 0, 0)
    if isinstance(given.crop, CropBox):
        crop, box = "NNKIT_CROP_RECTANGLE", given.crop
    elif given.crop is not None:
        crop = "NNKIT_CROP_CENTER"
    resize = given.resize
    fields = (
        width,
        height,
        f"NNKIT_{given.color.upper()}",
        crop,
        box.left,
        box.top,
        box.width,
        box.height,
        int(given.flip),
        "NNKIT_RESIZE_NONE" if resize is None else f"NNKIT_{resize.filter.upper()}",
        int(resize is not None and resize.letterbox),
        resize.fill if resize is not None else 0,
        int(_rows_first()),
        int(channels_last),
    )
    return ", ".join(map(str, fields))


@cache
def _rows_first() -> bool:
    """Whether the Pillow that calibrates resizes rows first where many go; the order shows in the last bit."""
    from PIL import Image

    picture = Image.frombytes("L", (8, 64), bytes((37 * i * i) % 251 for i in range(512)))
    filter_ = Image.Resampling.BILINEAR
    columns = picture.resize((6, 64), filter_).resize((6, 9), filter_)
    return picture.resize((6, 9), filter_).tobytes() != columns.tobytes()
