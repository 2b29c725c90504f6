"""`<name>_from_pixels()`: C that makes a network's input of the pixels of a picture, exactly as the recipe says.

Crop, flip, resize and the order of the colours are `nnkit_preprocess.c`'s, to the pixel what calibration saw. Mean,
scale and the input's number format are one table: what each of the 256 pixel values is stored as. There is no heap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit import __version__
from nnkit.c.sources import c_environment, tidy_source
from nnkit.c.text import float32_literal, identifier
from nnkit.preprocess.c_settings import preprocess_initialiser, preprocess_sources
from nnkit.preprocess.settings import CropBox, Preprocess
from nnkit.program import Float, Program, Tensor

FOLDER = "preprocess"
"""The folder of these files in an artifact."""
_PER_LINE = 8
_C_TYPES = {"f4": "float", "i1": "signed char", "u1": "unsigned char", "i2": "short", "u2": "unsigned short"}
NOT_STATED = "real values, as the network was trained on; the recipe states no preprocessing"


@dataclass(frozen=True, eq=False)
class PictureInput:
    """An input that is made of pictures. pointer: its C parameter. shape: [C, H, W]. channels_last: how it lies in C.

    stored: [1, 256] or [C, 256], what pixels are stored as.
    """

    name: str
    pointer: str
    shape: tuple[int, int, int]
    channels_last: bool
    preprocess: Preprocess
    stored: NDArray[Any]

    @staticmethod
    def of(tensor: Tensor, pointer: str, preprocess: Preprocess, *, channels_last: bool) -> PictureInput:
        """The input of a program, [C, H, W] or [1, C, H, W]."""
        channels, height, width = tensor.shape[-3:]
        stored = stored_pixels(preprocess, tensor)
        return PictureInput(tensor.name, pointer, (channels, height, width), channels_last, preprocess, stored)

    @property
    def type(self) -> str:
        """C's name of the element; char, short and float have the sizes that the libraries rely on."""
        return _C_TYPES[self.stored.dtype.str[1:]]

    @property
    def how(self) -> str:
        """The fields of its `nnkit_preprocess`."""
        _, height, width = self.shape
        return preprocess_initialiser(self.preprocess, height, width, channels_last=self.channels_last)

    @property
    def rows(self) -> list[list[str]]:
        """The tables in C, by channel, in lines."""
        is_float = self.stored.dtype == np.float32
        tables = self.stored.tolist()
        literals = [[float32_literal(each) if is_float else str(each) for each in table] for table in tables]
        return [[", ".join(row[i : i + _PER_LINE]) for i in range(0, 256, _PER_LINE)] for row in literals]


@dataclass(frozen=True)
class Pictures:
    """The inputs of an artifact that are made of pictures, as its templates say them. files: by path, in `FOLDER`.

    functions: by input, the one that makes it of pixels. texts: by input, how. records: the same as JSON data.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @staticmethod
    def of(
        prefix: str,
        program: Program,
        pointers: Mapping[str, str],
        given: Mapping[str, Preprocess],
        *,
        channels_last: bool,
    ) -> Pictures:
        """pointers: C parameters by input. given: the preprocessing of those inputs that are pictures."""
        inputs = [
            PictureInput.of(program.tensors[name], pointers[name], preprocess, channels_last=channels_last)
            for name, preprocess in given.items()
        ]
        return Pictures(
            {f"{FOLDER}/{name}": text for name, text in from_pixels_files(prefix, inputs).items()},
            function_names(prefix, inputs),
            {each.name: described(each.preprocess, each.shape) for each in inputs},
            {each.name: record(each.preprocess, each.shape) for each in inputs},
        )

    @property
    def sources(self) -> tuple[str, ...]:
        """C files, relative to the artifact."""
        return tuple(path for path in self.files if path.endswith(".c"))

    def text(self, name: str) -> str:
        """What is done to have an input."""
        return self.texts.get(name, NOT_STATED)

    def recorded(self, description: Mapping[str, Any]) -> dict[str, Any]:
        """An artifact's description with the `preprocess` of each of its `inputs`; None where it is no picture."""
        inputs = [each | {"preprocess": self.records.get(each["name"])} for each in description["inputs"]]
        return dict(description) | {"inputs": inputs}


NO_PICTURES = Pictures()


def stored_pixels(preprocess: Preprocess, tensor: Tensor) -> NDArray[Any]:
    """What pixels 0..255 are stored as in a tensor's format: [1, 256], or [C, 256] where channels differ.

    mean and scale are applied in float64 and rounded once to float32, as `load_image` does; integers saturate.
    """
    same = len(set(preprocess.mean)) == 1 and len(set(preprocess.scale)) == 1
    mean, scale = (
        np.broadcast_to(np.asarray(each, np.float64), preprocess.channels)[:, np.newaxis]
        for each in (preprocess.mean, preprocess.scale)
    )
    real = ((np.arange(256.0) - mean) * scale).astype(np.float32)
    values = real[:1] if same else real
    if not isinstance(tensor.format, Float):
        whole = np.clip(tensor.format.quantize(values.astype(np.float64)), tensor.low, tensor.high)
        return whole.astype(tensor.format.dtype).reshape(-1, 256)
    return values


def function_names(prefix: str, inputs: Sequence[PictureInput]) -> dict[str, str]:
    """By input its function: `<prefix>_from_pixels`, or with the input's name behind where there are several."""
    base = f"{prefix}_from_pixels"
    return {each.name: base if len(inputs) == 1 else f"{base}_{each.pointer}" for each in inputs}


def from_pixels_files(prefix: str, inputs: Sequence[PictureInput]) -> dict[str, str]:
    """The files of `FOLDER` by name; none where no input is made of pictures."""
    if not inputs:
        return {}
    names = function_names(prefix, inputs)
    values = {
        "prefix": prefix,
        "guard": identifier(f"{prefix}_from_pixels_h").upper(),
        "version": __version__,
        "inputs": [(names[each.name], each, described(each.preprocess, each.shape)) for each in inputs],
    }
    environment = c_environment("nnkit", "c", "preprocess")
    stem = f"{prefix}_from_pixels"
    own = {f"{stem}.{end}": tidy_source(environment, f"from_pixels.{end}.j2", values) for end in ("h", "c")}
    return dict(sorted((own | preprocess_sources()).items()))


def described(given: Preprocess, shape: Sequence[int]) -> str:
    """One line for people, of an input [..., C, H, W]: what is done to a picture."""
    height, width = shape[-2:]
    steps = [{"gray": "gray", "rgb": "red, green, blue", "bgr": "blue, green, red"}[given.color]]
    if isinstance(given.crop, CropBox):
        box = given.crop
        steps.append(f"crop of {box.width} x {box.height} at left {box.left}, top {box.top}")
    elif given.crop is not None:
        steps.append("centre crop")
    if given.flip:
        steps.append("mirrored")
    resize = given.resize
    if resize is None:
        steps.append(f"{width} x {height} pixels, not resized")
    else:
        frame = f", letterbox filled with {resize.fill}" if resize.letterbox else ""
        steps.append(f"resized to {width} x {height} pixels ({resize.filter}{frame})")
    mean, scale = (_numbers(each) for each in (given.mean, given.scale))
    raw = set(given.mean) == {0.0} and set(given.scale) == {1.0}
    steps.append("pixels 0 to 255 as they are" if raw else f"then (pixel - {mean}) * {scale}")
    return "; ".join(steps)


def record(given: Preprocess, shape: Sequence[int]) -> Mapping[str, Any]:
    """The same as JSON data. mean, scale: value = (pixel - mean) * scale, one number or one a channel of `color`."""
    height, width = shape[-2:]
    resize, crop = given.resize, given.crop
    return {
        "color": given.color,
        "size": [int(height), int(width)],
        "crop": vars(crop) if isinstance(crop, CropBox) else crop,
        "flip": given.flip,
        "resize": None
        if resize is None
        else {"filter": resize.filter, "letterbox": resize.letterbox, "fill": resize.fill},
        "mean": list(given.mean),
        "scale": list(given.scale),
    }


def _numbers(values: Sequence[float]) -> str:
    texts = [f"{value:.9g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else f"[{', '.join(texts)}]"
