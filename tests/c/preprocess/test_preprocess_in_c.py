"""nnkit_preprocess.c gives the pixels that `nnkit.preprocess` gives, whose steps are Pillow's."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nnkit.errors import UserFileError
from nnkit.preprocess import CropBox, Preprocess, Resize
from nnkit.preprocess.c_settings import preprocess_initialiser, preprocess_sources
from nnkit.preprocess.load import preprocess_image

DRIVER = """
#include <stdlib.h>
#include "nnkit_preprocess.h"
int run(const unsigned char *pixels, int width, int height, int channels, unsigned char *planes)
{{
    static const nnkit_preprocess how = {{ {how} }};
    nnkit_image image;
    size_t bytes = nnkit_preprocess_bytes(&how, width, height, channels);
    void *scratch = bytes ? malloc(bytes) : NULL;
    int status;
    image.pixels = pixels; image.width = width; image.height = height; image.channels = channels;
    status = nnkit_preprocess_image(&how, &image, scratch, planes);
    free(scratch);
    return status;
}}
"""
STRICT = ("-std=c90", "-pedantic-errors", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O2", "-ffp-contract=off")


InC = Callable[[np.ndarray], tuple[int, np.ndarray]]


def in_c(folder: Path, given: Preprocess, hw: tuple[int, int]) -> InC:
    """The status and the planes of a picture."""
    driver = DRIVER.format(how=preprocess_initialiser(given, *hw))
    for name, text in (preprocess_sources() | {"driver.c": driver}).items():
        (folder / name).write_text(text)
    sources = [str(folder / "driver.c"), str(folder / "nnkit_preprocess.c")]
    library = folder / "pre.so"
    subprocess.run(["gcc", *STRICT, "-shared", "-fPIC", *sources, "-o", str(library), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).run

    def run(pixels: np.ndarray) -> tuple[int, np.ndarray]:
        planes = np.full((given.channels, *hw), 7, np.uint8)
        height, width, *rest = pixels.shape
        source, target = (array.ctypes.data_as(ctypes.c_void_p) for array in (np.ascontiguousarray(pixels), planes))
        return function(source, width, height, rest[0] if rest else 1, target), planes

    return run


def picture(height: int, width: int, channels: int) -> np.ndarray:
    """Steps, edges and noise, so that every rounding is met."""
    shape = (height, width, 3) if channels == 3 else (height, width)
    noise = np.random.default_rng(height * width).integers(0, 256, shape)
    noise[: height // 2] = np.where(noise[: height // 2] > 128, 255, 0)
    return noise.astype(np.uint8)


CASES = [
    *(Preprocess("rgb", resize=Resize(24, 30, name)) for name in ("nearest", "box", "bilinear", "hamming")),
    *(Preprocess("bgr", resize=Resize(24, 30, name, True, 114)) for name in ("nearest", "bicubic", "lanczos")),
    Preprocess("gray", flip=True, resize=Resize(90, 17, "lanczos")),
    Preprocess("gray", crop=CropBox(3, 5, 20, 11), resize=Resize(8, 31, "bicubic", True, 9)),
    Preprocess("rgb", crop="center", flip=True, resize=Resize(12, 40, "bilinear")),
    Preprocess("bgr", crop="center"),
    Preprocess("rgb", crop=CropBox(1, 2, 30, 24), flip=True),
]


@pytest.mark.parametrize("given", CASES, ids=str)
def test_pixels_are_those_of_python(given: Preprocess, tmp_path: Path):
    hw = (given.resize.height, given.resize.width) if given.resize is not None else (24, 30)
    run = in_c(tmp_path, given, hw)
    for height, width, channels in [(61, 47, 3), (33, 95, 3), (40, 41, 1), (27, 31, 1)]:
        pixels = picture(height, width, channels)
        expected = preprocess_image(Image.fromarray(pixels), given, (1, given.channels, *hw))[0]
        status, found = run(pixels)
        assert status == 0
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("given", "status"), [(Preprocess("rgb", crop=CropBox(40, 0, 30, 24)), -1), (Preprocess("rgb"), -2)]
)
def test_what_python_refuses_c_refuses(given: Preprocess, status: int, tmp_path: Path):
    pixels = picture(61, 47, 3)
    with pytest.raises(UserFileError):
        preprocess_image(Image.fromarray(pixels), given, (1, 3, 24, 30))
    assert in_c(tmp_path, given, (24, 30))(pixels)[0] == status
