"""Preprocess: how a picture becomes a network's input, as plain values with one meaning each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from nnkit.errors import RecipeError

Color = Literal["gray", "rgb", "bgr"]
ResizeFilter = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"]


@dataclass(frozen=True)
class CropBox:
    """A window of the picture in whole pixels, the origin at its top left corner."""

    left: int
    top: int
    width: int
    height: int


@dataclass(frozen=True)
class Resize:
    """Resize to `height` x `width` pixels with the filter of that name of Pillow.

    All filters but `nearest` widen their support when they shrink a picture (antialiasing); OpenCV's do not.
    """

    height: int
    width: int
    filter: ResizeFilter = "bilinear"


@dataclass(frozen=True)
class Preprocess:
    """The steps from a decoded picture to the network's input, in this order.

    color: channels and their order. Gray from colour: ITU-R 601, L = 0.299 R + 0.587 G + 0.114 B, as Pillow rounds.
    crop: a window; `center`: the largest centred window with the aspect ratio of `resize`, or, without a resize,
        the centred window of the network's own size.
    flip: mirror left to right.
    resize: to the network's height and width; 8-bit pictures are rounded to whole pixel values by it.
    mean, scale: x = (pixel - mean) * scale; the scale *multiplies* (1/255, not 255). One value for all channels, or
        one a channel in the order of `color`. Pixels lie in 0..255, those of 16-bit pictures too.

    Raises:
        RecipeError: a value out of its range; the place is the caller's to add.
    """

    color: Color = "gray"
    crop: CropBox | Literal["center"] | None = None
    flip: bool = False
    resize: Resize | None = None
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if self.color not in get_args(Color):
            raise RecipeError(f"color '{self.color}' is not known", remedy=f"use one of {_listed(Color)}")
        self._check_geometry()
        for name in ("mean", "scale"):
            values: tuple[float, ...] = getattr(self, name)
            if len(values) not in (1, self.channels):
                reason = f"{name} has {len(values)} values, but color '{self.color}' has {self.channels} channel(s)"
                raise RecipeError(reason, remedy=f"give one value, or {self.channels}")
            if not all(math.isfinite(value) for value in values):
                raise RecipeError(f"{name} holds a value that is not finite", remedy="give finite numbers")
        if 0.0 in self.scale:
            raise RecipeError("scale is 0: every input would be 0", remedy="scale multiplies; 1.0 changes nothing")

    def _check_geometry(self) -> None:
        if isinstance(self.crop, CropBox):
            box = self.crop
            if box.left < 0 or box.top < 0 or box.width < 1 or box.height < 1:
                raise RecipeError(
                    f"crop [{box.left}, {box.top}, {box.width}, {box.height}] is not a window of a picture",
                    remedy="crop is [left, top, width, height] in pixels: left and top from 0, the others from 1",
                )
        if self.resize is not None:
            if self.resize.filter not in get_args(ResizeFilter):
                reason = f"resize filter '{self.resize.filter}' is not known"
                raise RecipeError(reason, remedy=f"use one of {_listed(ResizeFilter)}")
            if self.resize.height < 1 or self.resize.width < 1:
                raise RecipeError("a resize to less than one pixel", remedy="size is [height, width] in pixels")

    @property
    def channels(self) -> int:
        """Channels of the network's input: 1 or 3."""
        return 1 if self.color == "gray" else 3

    @classmethod
    def from_recipe(cls, recipe: Any, shape: Sequence[int] = ()) -> Preprocess:
        """From the recipe's `preprocess` (a model object or a mapping); None gives the defaults.

        Args:
            shape: of the network's input; an omitted color is `rgb` where it has three channels, else `gray`.

        Raises:
            RecipeError: as the class.
        """
        default_color: Color = "rgb" if len(shape) == 4 and shape[1] == 3 else "gray"
        if recipe is None:
            return cls(color=default_color)
        resize = _get(recipe, "resize")
        return cls(
            color=_get(recipe, "color") or default_color,
            crop=_crop(_get(recipe, "crop")),
            flip=bool(_get(recipe, "flip", False)),
            resize=None if resize is None else _resize(resize),
            mean=_floats(_get(recipe, "mean", 0.0)),
            scale=_floats(_get(recipe, "scale", 1.0)),
        )


def check_shape(preprocess: Preprocess, shape: Sequence[int], *, where: str = "") -> tuple[int, int]:
    """(height, width) of a network input that pictures can be made for.

    Args:
        shape: of the network's input; must be [1, C, H, W] with the channels and the size that the settings give.
        where: the place in the recipe, for the message.

    Raises:
        RecipeError: the settings cannot give that input.
    """
    shown = list(shape)
    if len(shape) != 4 or shape[0] != 1:
        reason = f"pictures cannot feed an input of shape {shown}"
        raise RecipeError(reason, where=where, remedy="give .npy files of that shape; pictures need [1, C, H, W]")
    if shape[1] != preprocess.channels:
        reason = f"color '{preprocess.color}' gives {preprocess.channels} channel(s), the input is {shown}"
        remedy = {1: "use color: gray", 3: "use color: rgb or bgr"}.get(shape[1], "give .npy files of that shape")
        raise RecipeError(reason, where=where, remedy=remedy)
    height, width = int(shape[2]), int(shape[3])
    resize = preprocess.resize
    if resize is not None and (resize.height, resize.width) != (height, width):
        reason = f"resize gives {resize.height} x {resize.width} pixels (height x width), the input is {shown}"
        raise RecipeError(reason, where=where, remedy=f"use size: [{height}, {width}]")
    return height, width


def _get(recipe: Any, key: str, default: Any = None) -> Any:
    if isinstance(recipe, Mapping):
        return recipe.get(key, default)
    return getattr(recipe, key, default)


def _crop(crop: Any) -> CropBox | Literal["center"] | None:
    if crop is None or crop == "center":
        return "center" if crop else None
    if isinstance(crop, str):
        raise RecipeError(f"crop '{crop}' is not known", remedy="use center or [left, top, width, height]")
    if isinstance(crop, Sequence):
        if len(crop) != 4:
            raise RecipeError(f"crop has {len(crop)} numbers", remedy="crop is [left, top, width, height] in pixels")
        left, top, width, height = crop
        return CropBox(int(left), int(top), int(width), int(height))
    return CropBox(*(int(_get(crop, key)) for key in ("left", "top", "width", "height")))


def _resize(resize: Any) -> Resize:
    height, width = _get(resize, "size")
    return Resize(int(height), int(width), _get(resize, "filter", "bilinear"))


def _floats(value: Any) -> tuple[float, ...]:
    return tuple(float(item) for item in value) if isinstance(value, Sequence) else (float(value),)


def _listed(choices: Any) -> str:
    return ", ".join(get_args(choices))
