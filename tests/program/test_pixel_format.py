"""Pixels as a format: what the preprocessing made of them, and back."""

from __future__ import annotations

import numpy as np
from PIL import Image

from nnkit.preprocess import Preprocess
from nnkit.preprocess.load import preprocess_image
from nnkit.program import Pixels
from nnkit.serialize import decode, encode

MEAN, SCALE = (123.675, 116.28, 103.53), (1 / 58.395, 1 / 57.12, 1 / 57.375)


def test_every_pixel_survives_preprocessing() -> None:
    """All 256 levels in each channel, preprocessed by the image pipeline, give the picture's own bytes."""
    levels = np.stack([np.roll(np.arange(256, dtype=np.uint8), shift) for shift in (0, 1, 2)], axis=-1)
    picture = levels.reshape(16, 16, 3)
    settings = Preprocess(color="rgb", mean=MEAN, scale=SCALE)
    values = preprocess_image(Image.fromarray(picture), settings, (1, 3, 16, 16))
    stored = Pixels(MEAN, SCALE).quantize(values)
    np.testing.assert_array_equal(stored[0], np.moveaxis(picture, 2, 0))
    np.testing.assert_allclose(Pixels(MEAN, SCALE).dequantize(stored), values, rtol=1e-6, atol=1e-6)


def test_values_that_no_pixel_gives_are_the_nearest_ones() -> None:
    pixels = Pixels((10.0,), (-0.5,))  # a negative scale turns the picture into its negative
    values = np.array([[[4.9, -125.0, -122.74, 0.26]]])
    np.testing.assert_array_equal(pixels.quantize(values), [[[0, 255, 255, 9]]])
    assert (pixels.bytes, pixels.dtype, str(pixels)) == (1, np.dtype("u1"), "u8 pixels")


def test_the_format_is_stored_with_a_program() -> None:
    assert decode(encode(Pixels(MEAN, SCALE))) == Pixels(MEAN, SCALE)
