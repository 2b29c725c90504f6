"""Inputs that the model takes as pixels: the recipe's colour order, mean and scale are computed on the chip.

Crop, mirror and resize stay with whoever feeds the model: the compiler fuses no resize.

In an INT8 network the compiler turns the pixels of every channel into the input's integers by a table of 256 entries;
in a floating-point network it multiplies and adds in that precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import RecipeError
from nnkit.preprocess import Preprocess
from nnkit.program import Pixels
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.top_mlir import PixelInput


def pixel_inputs(
    inputs: Sequence[str], images: Mapping[str, Preprocess], options: TpuOptions
) -> dict[str, PixelInput]:
    """What the compiler needs to know of every input; empty without `fuse_preprocess`.

    images: of the inputs that are made from images. Raises RecipeError for any other input, and where two inputs
    would take pixels of different kinds.
    """
    if not options.fuse_preprocess:
        return {}
    taken: dict[str, PixelInput] = {}
    for name in inputs:
        if name not in images:
            raise RecipeError(
                f"fuse_preprocess: input '{name}' is not made from images",
                where=f"model.inputs.{name}",
                remedy="write its `preprocess` (color, mean, scale), or remove fuse_preprocess",
            )
        taken[name] = _pixel_input(images[name], options)
    kinds = {name: pixels.pixel_format for name, pixels in taken.items()}
    if len(set(kinds.values())) > 1:
        shown = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
        raise RecipeError(
            f"fuse_preprocess: the inputs take pixels of different kinds ({shown})",
            where="model.inputs",
            remedy="the compiler fuses one kind of pixels: give `pixels: {color: ...}`, or remove fuse_preprocess",
        )
    return taken


def _pixel_input(preprocess: Preprocess, options: TpuOptions) -> PixelInput:
    channels, color = preprocess.channels, preprocess.color
    mean, scale = (v if len(v) == channels else v * channels for v in (preprocess.mean, preprocess.scale))
    packed = options.pixels.layout == "packed" and color != "gray"  # of one channel both layouts are the same
    swapped = color != "gray" and options.pixels.color not in (None, color)
    return PixelInput(color, mean, scale, swapped, packed)


def pixel_format(pixels: PixelInput) -> Pixels:
    """How the program stores such an input: in the network's order of channels, planar."""
    return Pixels(pixels.mean, pixels.scale)


def as_given(stored: NDArray[Any], pixels: PixelInput) -> NDArray[np.uint8]:
    """A program's input [C, H, W] as the model takes it, with the batch axis."""
    planes = np.asarray(stored, np.uint8)
    planes = planes[::-1] if pixels.swapped else planes
    return np.ascontiguousarray(np.moveaxis(planes, 0, -1) if pixels.packed else planes)[np.newaxis]


def given_shape(shape: Sequence[int], pixels: PixelInput) -> tuple[int, ...]:
    """The shape of `as_given` for a program's input of `shape`, [C, H, W]."""
    channels, height, width = shape
    return (1, height, width, channels) if pixels.packed else (1, channels, height, width)
