"""The board's C of `preprocess` against OpenCV: letterbox, filters and colours, by pictures of several shapes."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest
from numpy.typing import NDArray

from nnkit.preprocess.c_settings import preprocess_initialiser, preprocess_sources
from nnkit.preprocess.settings import Preprocess, Resize

cv2 = pytest.importorskip("cv2")

Pixels = NDArray[np.uint8]
HEIGHT, WIDTH, FILL = 48, 64, 114

CALLS = {
    (color, filter_): Preprocess(color=color, resize=Resize(HEIGHT, WIDTH, filter_, letterbox=True, fill=FILL))
    for color in ("rgb", "bgr", "gray")
    for filter_ in ("bilinear", "box", "nearest")
}
"""One function of the library each."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("preprocess")
    for name, text in preprocess_sources().items():
        (folder / name).write_text(text)
    functions = [
        f"int {color}_{filter_}(const nnkit_image *image, unsigned char *planes)\n"
        f"{{ static const nnkit_preprocess how = {{{preprocess_initialiser(settings, HEIGHT, WIDTH)}}};\n"
        f"  static int scratch[1 << 20];\n"
        f"  if (nnkit_preprocess_bytes(&how, image->width, image->height, 3) > sizeof scratch) return 99;\n"
        f"  return nnkit_preprocess_image(&how, image, scratch, planes); }}\n"
        for (color, filter_), settings in CALLS.items()
    ]
    (folder / "calls.c").write_text('#include "nnkit_preprocess.h"\n' + "".join(functions))
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    sources = [str(folder / "calls.c"), str(folder / "nnkit_preprocess.c")]
    subprocess.run(["gcc", *flags, *sources, "-o", str(folder / "calls.so"), "-lm"], check=True)
    return ctypes.CDLL(str(folder / "calls.so"))


class Image(ctypes.Structure):
    _fields_ = (
        ("pixels", ctypes.c_char_p),
        ("width", ctypes.c_int),
        ("height", ctypes.c_int),
        ("channels", ctypes.c_int),
    )


def in_c(library: ctypes.CDLL, rgb: Pixels, color: str, filter_: str) -> Pixels:
    """Planes [C, H, W] of a picture [h, w, 3]."""
    planes = np.zeros((1 if color == "gray" else 3, HEIGHT, WIDTH), np.uint8)
    image = Image(rgb.tobytes(), rgb.shape[1], rgb.shape[0], 3)
    function = getattr(library, f"{color}_{filter_}")
    assert function(ctypes.byref(image), planes.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))) == 0
    return planes


def in_opencv(rgb: Pixels, color: str, interpolation: int) -> Pixels:
    """As detectors' letterboxes are written: one ratio, sides rounded, the odd line of the border at the end."""
    ratio = min(HEIGHT / rgb.shape[0], WIDTH / rgb.shape[1])
    height, width = (round(side * ratio) for side in rgb.shape[:2])
    code = {"bgr": cv2.COLOR_RGB2BGR, "gray": cv2.COLOR_RGB2GRAY}.get(color)
    pixels = rgb if code is None else cv2.cvtColor(rgb, code)
    pixels = cv2.resize(pixels, (width, height), interpolation=interpolation)
    top, left = (HEIGHT - height) // 2, (WIDTH - width) // 2
    borders = (top, HEIGHT - height - top, left, WIDTH - width - left)
    boxed = cv2.copyMakeBorder(pixels, *borders, cv2.BORDER_CONSTANT, value=(FILL, FILL, FILL))
    return boxed.reshape(HEIGHT, WIDTH, -1).transpose(2, 0, 1)


@pytest.mark.parametrize("color", ["rgb", "bgr", "gray"])
@pytest.mark.parametrize(
    ("filter_", "interpolation", "sizes", "most"),
    [
        # Wider, higher, square, a line, and the network's own aspect ratio: made larger, where Pillow's filter is
        # OpenCV's. Both round weights to fixed point.
        ("bilinear", cv2.INTER_LINEAR, [(11, 37), (37, 11), (30, 30), (1, 50), (24, 32), (47, 9)], 1),
        # Made smaller by a whole factor, where an area's mean is the box filter.
        ("box", cv2.INTER_AREA, [(96, 128), (192, 100), (30, 128), (240, 320)], 1),
        ("nearest", cv2.INTER_NEAREST_EXACT, [(11, 37), (192, 100), (77, 55), (240, 320), (20, 333)], 0),
    ],
)
def test_letterbox_and_colours_are_opencvs(
    filter_: str, interpolation: int, sizes: list[tuple[int, int]], most: int, color: str, library: ctypes.CDLL
) -> None:
    """most: by which a pixel may differ, as ours is rounded between columns and rows; gray by one more, as it is
    rounded before the filter too."""
    most += color == "gray"
    for index, size in enumerate(sizes):
        rgb = np.random.default_rng(index).integers(0, 256, (*size, 3)).astype(np.uint8)
        ours, theirs = in_c(library, rgb, color, filter_), in_opencv(rgb, color, interpolation)
        assert ours.shape == theirs.shape
        assert np.abs(ours.astype(int) - theirs).max() <= most, size
