"""Decoding: a picture file of any common kind to 8-bit gray, 8-bit RGB, or gray with fractions, all in 0..255.

Decisions, the same for every format:
- Pixels are on the scale 0..255. 16-bit gray is divided by 257 and keeps its fractions, so that a picture and its
  16-bit copy give the same input; 16-bit colour is cut to 8 bits by the decoder.
- The EXIF orientation is applied: the network sees what a person sees.
- Palettes are expanded; alpha is dropped and the stored colour kept, as Pillow and OpenCV do by default; CMYK goes
  to RGB by Pillow's formula without colour profiles; of an animation the first frame is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.errors import UserFileError
from nnkit.reading import is_broken_link

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Pillow's decoders that may run on a user's file; others (EPS, ...) start programs or are rare."""

MAX_PIXELS = 1 << 26
"""A file that claims more pixels (64 Mi) is refused before it is decoded."""

_OF_SEVERAL_FRAMES = ("GIF", "PNG", "TIFF", "WEBP")
_MOST_HEADS = 1000  # pictures that are looked at for frames
_NAMED = 3  # pictures that are named in a line
_ORIENTATION = 0x0112  # of EXIF
_ON_ITS_SIDE = (5, 6, 7, 8)
_RGB_MODES = frozenset({"P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr"})
_GRAY_MODES = frozenset({"1", "L", "LA", "La"})
_NOT_A_PICTURE = "give a PNG, JPEG, PGM/PPM, BMP, GIF, TIFF or WebP picture, or an .npy array"


def check_regular_file(path: Path) -> None:
    """The path must be a file with something in it.

    Raises:
        UserFileError: missing, a folder, a device or pipe (opening one could wait for ever), or empty.
    """
    try:
        if path.is_dir():
            raise UserFileError("this is a folder, not a picture", where=str(path), remedy="name the files in it: /*")
        if is_broken_link(path):
            raise UserFileError(
                "this is a link that leads to no file",
                where=str(path),
                remedy="name the file itself",
            )
        if not path.exists():
            raise UserFileError("there is no such file", where=str(path), remedy="check the path")
        if not path.is_file():
            raise UserFileError("this is not a regular file", where=str(path), remedy=_NOT_A_PICTURE)
        if path.stat().st_size == 0:
            raise UserFileError("the file is empty", where=str(path), remedy="fetch or export it again, or remove it")
    except OSError as error:
        raise UserFileError(
            f"the file cannot be read: {error.strerror or error}", where=str(path), remedy="check its permissions"
        ) from error


def decode_image(path: Path) -> Image:
    """The picture of a file, upright.

    Returns:
        A Pillow image: `L` or `RGB` (8 bits), or `F` (gray with fractions, from 16 bits); values in 0..255.

    Raises:
        UserFileError: the file is missing, empty, a folder, not a picture, truncated, too large, or of a pixel type
            that has no defined range.
    """
    from PIL import ImageOps

    with _opened(path) as opened:
        file_format = opened.format or ""
        opened.load()
        ImageOps.exif_transpose(opened, in_place=True)
        return _to_plain_mode(opened, file_format, path)


def picture_size(path: Path) -> tuple[int, int]:
    """(height, width) of a picture, upright, from the head of its file. Raises UserFileError as `decode_image`."""
    with _opened(path) as opened:
        # Pillow would decode a whole PNG to look for an orientation behind the pixels, where it is rare.
        turned = opened.format != "PNG" and opened.getexif().get(_ORIENTATION, 1) in _ON_ITS_SIDE
        return (opened.width, opened.height) if turned else (opened.height, opened.width)


def first_frame_note(paths: Iterable[Path]) -> str | None:
    """That only the first frame is taken of pictures with several frames or pages; None where there are none.

    At most _MOST_HEADS are looked at, spread evenly.
    """
    from nnkit.preprocess.files import spread

    several = [path.name for path in spread(list(dict.fromkeys(paths)), _MOST_HEADS) if _has_frames(path)]
    if not several:
        return None
    more = f" and {len(several) - _NAMED} more" if len(several) > _NAMED else ""
    have = "has" if len(several) == 1 else "have"
    named = f"{', '.join(several[:_NAMED])}{more}"
    return f"{named} {have} several frames or pages, of which the first is taken: give each picture as a file"


def _has_frames(path: Path) -> bool:
    """Whether it is an animation, or has several pages. A file that is no picture is for others to refuse."""
    if path.suffix.lower() == ".npy":
        return False
    try:
        with _opened(path) as opened:
            return opened.format in _OF_SEVERAL_FRAMES and bool(getattr(opened, "is_animated", False))
    except UserFileError:
        return False


@contextmanager
def _opened(path: Path) -> Iterator[Image]:
    """The picture, not decoded yet; what goes wrong with it inside becomes UserFileError."""
    from PIL import Image, UnidentifiedImageError

    check_regular_file(path)
    try:
        with Image.open(path, formats=FORMATS) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise UserFileError(
                    f"the picture claims {opened.width} x {opened.height} pixels; the limit is {MAX_PIXELS}",
                    where=str(path),
                    remedy="give a smaller picture",
                )
            yield opened
    except UserFileError:
        raise
    except UnidentifiedImageError as error:
        reason = "the file is not a picture of a known format, whatever its name says"
        raise UserFileError(reason, where=str(path), remedy=_NOT_A_PICTURE) from error
    except Image.DecompressionBombError as error:
        reason = f"the picture claims more than {MAX_PIXELS} pixels"
        raise UserFileError(reason, where=str(path), remedy="give a smaller picture") from error
    except Exception as error:  # decoders answer broken files with nearly every exception type
        raise UserFileError(
            f"the picture is broken: {str(error) or type(error).__name__}",
            where=str(path),
            remedy="export it again, or remove it",
        ) from error


def _to_plain_mode(image: Image, file_format: str, path: Path) -> Image:
    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return image
    if image.mode in _GRAY_MODES:
        return image.convert("LA").convert("L") if image.mode == "La" else image.convert("L")
    if image.mode in _RGB_MODES:
        through_alpha = image.mode in ("PA", "RGBa") or "transparency" in image.info
        return (image.convert("RGBA") if through_alpha else image).convert("RGB")
    if image.mode.startswith("I;16") or (image.mode == "I" and file_format == "PPM"):
        return _from_16_bits(image)
    raise UserFileError(
        f"the pixels are of type '{image.mode}', which has no defined black and white",
        where=str(path),
        remedy="save it with 8 or 16 bits a channel, or give the network's input as .npy",
    )


def _from_16_bits(image: Image) -> Image:
    import numpy as np
    from PIL import Image as PillowImage

    samples = np.asarray(image).astype(np.float64)  # [H, W], 0..65535
    return PillowImage.fromarray((samples / 257.0).astype(np.float32))
