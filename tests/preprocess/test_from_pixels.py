"""`<name>_from_pixels()` gives what Pillow and the recipe's numbers give: float32, and integers of 8 and 16 bits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from nnkit.preprocess import CropBox, Preprocess, Resize
from nnkit.preprocess.from_pixels import PictureInput, described, from_pixels_files, record
from nnkit.program import Fixed, Float, Tensor
from nnkit.program.affine import AffineTensor
from nnkit.program.formats import Affine

STRICT = ("-std=c90", "-pedantic-errors", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1", "-ffp-contract=off")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
HEIGHT, WIDTH = 24, 30
IMAGENET = Preprocess(
    "rgb", resize=Resize(HEIGHT, WIDTH, "bilinear"), mean=(123.675, 116.28, 103.53), scale=(0.0171, 0.0175, 0.0174)
)
LETTERBOX = Preprocess("bgr", resize=Resize(HEIGHT, WIDTH, "bicubic", True, 114), mean=(127.5,), scale=(1 / 127.5,))
CROPPED = Preprocess("gray", crop=CropBox(2, 1, 30, 24), flip=True, mean=(128.0,), scale=(0.0078125,))

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "net_from_pixels.h"
int main(int argc, char **argv)
{{
    static {type} input[{count}];
    int height = atoi(argv[1]), width = atoi(argv[2]), channels = atoi(argv[3]), status;
    size_t bytes = (size_t)height * (size_t)width * (size_t)channels, more;
    unsigned char *pixels = malloc(bytes);
    void *scratch;
    if (argc < 4 || !pixels || fread(pixels, 1, bytes, stdin) != bytes) return 99;
    more = net_from_pixels_bytes(width, height, channels);
    scratch = more ? malloc(more) : NULL;
    status = net_from_pixels(pixels, width, height, channels, scratch, input);
    fwrite(input, sizeof *input, {count}, stdout);
    free(pixels);
    free(scratch);
    return -status;
}}
"""


def by_hand(pixels: NDArray[np.uint8], given: Preprocess) -> NDArray[np.float64]:
    """[C, H, W] by Pillow, and the recipe's mean and scale."""
    image = Image.fromarray(pixels)
    if given.color == "gray":
        image = image.convert("L")
    if isinstance(given.crop, CropBox):
        box = given.crop
        image = image.crop((box.left, box.top, box.left + box.width, box.top + box.height))
    if given.flip:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if given.resize is not None:
        height, width = given.resize.fitted(image.height, image.width)
        inner = image.resize((width, height), Image.Resampling[given.resize.filter.upper()])
        image = Image.new(image.mode, (WIDTH, HEIGHT), (given.resize.fill,) * len(image.getbands()))
        image.paste(inner, ((WIDTH - width) // 2, (HEIGHT - height) // 2))
    planes = np.atleast_3d(np.asarray(image)).transpose(2, 0, 1)
    planes = planes[::-1] if given.color == "bgr" else planes
    mean, scale = (np.reshape(np.float64(each), (-1, 1, 1)) for each in (given.mean, given.scale))
    return ((planes - mean) * scale).astype(np.float32)


CASES = [
    (IMAGENET, Float(32), 0, "f4", False),
    (LETTERBOX, Affine(8, (2 / 255,), (128,)), 0, "u1", True),
    (IMAGENET, Affine(16, (5 / 65535,), (0,), signed=True), 0, "i2", True),
    (CROPPED, Fixed(8, 6), 6, "i1", False),
]


@pytest.mark.parametrize(("given", "form", "frac", "dtype", "last"), CASES, ids=["float", "u8", "i16", "fixed"])
def test_values_are_those_of_the_recipe(given, form, frac, dtype, last, tmp_path: Path) -> None:
    channels = 1 if given.color == "gray" else 3
    low, high = (0, 0) if isinstance(form, Float) else (form.qmin, form.qmax)
    tensor = Tensor("x", (channels, HEIGHT, WIDTH), form, low, high)
    if isinstance(form, Affine):
        tensor = AffineTensor("x", (channels, HEIGHT, WIDTH), form)
    files = from_pixels_files("net", [PictureInput.of(tensor, "input", given, channels_last=last)])
    kind = {"f4": "float", "u1": "unsigned char", "i2": "short", "i1": "signed char"}[dtype]
    for name, text in (files | {"main.c": MAIN.format(type=kind, count=channels * HEIGHT * WIDTH)}).items():
        (tmp_path / name).write_text(text)
    sources = [str(tmp_path / name) for name in (*files, "main.c") if name.endswith(".c")]
    program = tmp_path / "main"
    subprocess.run(["gcc", *STRICT, *SANITIZERS, *sources, "-o", str(program), "-lm"], check=True)
    generator = np.random.default_rng(5)
    for height, width in ((61, 47), (25, 32)):
        pixels = generator.integers(0, 256, (height, width, 3), np.uint8)
        real = by_hand(pixels, given)
        expected = {  # ONNX's QuantizeLinear divides in float32
            "f4": lambda x: x,
            "u1": lambda x: np.clip(np.rint(x / np.float32(2 / 255)) + 128, 0, 255),
            "i2": lambda x: np.clip(np.rint(x / np.float32(5 / 65535)), -32768, 32767),
            "i1": lambda x: np.clip(np.floor(np.float64(x) * 2.0**frac + 0.5), -128, 127),
        }[dtype](real)
        command = [str(program), str(height), str(width), "3"]
        done = subprocess.run(command, input=pixels.tobytes(), capture_output=True, check=True)
        found = np.frombuffer(done.stdout, dtype)
        lying = expected.transpose(1, 2, 0) if last else expected
        np.testing.assert_array_equal(found.reshape(lying.shape), lying.astype(dtype))
    if given.crop is not None:
        done = subprocess.run([str(program), "9", "9", "3"], input=bytes(243), capture_output=True, check=False)
        assert done.returncode == 1, "the crop does not lie in the picture"


def test_what_header_and_json_say() -> None:
    assert described(IMAGENET, (1, 3, HEIGHT, WIDTH)) == (
        "red, green, blue; resized to 30 x 24 pixels (bilinear); "
        "then (pixel - [123.675, 116.28, 103.53]) * [0.0171, 0.0175, 0.0174]"
    )
    assert described(CROPPED, (1, HEIGHT, WIDTH)) == (
        "gray; crop of 30 x 24 at left 2, top 1; mirrored; 30 x 24 pixels, not resized; "
        "then (pixel - 128) * 0.0078125"
    )
    assert record(LETTERBOX, (1, 3, HEIGHT, WIDTH)) == {
        "color": "bgr",
        "size": [24, 30],
        "crop": None,
        "flip": False,
        "resize": {"filter": "bicubic", "letterbox": True, "fill": 114},
        "mean": [127.5],
        "scale": [1 / 127.5],
    }


@pytest.mark.parametrize("name", ["image", "pixels", "width", "status", "made", "i", "input"])
def test_inputs_may_be_called_as_the_function_calls_its_own(name: str, tmp_path: Path) -> None:
    tensor = Tensor(name, (1, HEIGHT, WIDTH), Float(32))
    files = from_pixels_files("net", [PictureInput.of(tensor, name, Preprocess("gray"), channels_last=False)])
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    command = ["gcc", *STRICT, "-fsyntax-only", str(tmp_path / "net_from_pixels.c")]
    subprocess.run(command, check=True)


def test_several_picture_inputs_have_a_function_each() -> None:
    form = Float(32)
    tensors = [Tensor(name, (1, HEIGHT, WIDTH), form) for name in ("left", "right")]
    inputs = [PictureInput.of(each, each.name, Preprocess("gray"), channels_last=False) for each in tensors]
    header = from_pixels_files("net", inputs)["net_from_pixels.h"]
    assert "net_from_pixels_left(" in header
    assert "net_from_pixels_right(" in header
