"""Preprocess: how a picture becomes a network's input, as plain values with one meaning each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nnkit.errors import RecipeError

if TYPE_CHECKING:
    from nnkit.recipe.inputs import Color, ResizeFilter
    from nnkit.recipe.inputs import Preprocess as WrittenPreprocess


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

    letterbox: the picture keeps its aspect ratio: it is made as large as fits, its shorter side rounded half up, and
    put in the middle (one pixel less above or left where that is uneven). fill: gray level of what is left over.
    """

    height: int
    width: int
    filter: ResizeFilter
    letterbox: bool = False
    fill: int = 0

    def fitted(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) that a picture is scaled to."""
        if not self.letterbox:
            return self.height, self.width
        if width * self.height >= height * self.width:
            return max(1, (2 * height * self.width + width) // (2 * width)), self.width
        return self.height, max(1, (2 * width * self.height + height) // (2 * height))


@dataclass(frozen=True)
class Preprocess:
    """The steps from a decoded picture to the network's input, in this order.

    color: channels and their order. Gray from colour: ITU-R 601, L = 0.299 R + 0.587 G + 0.114 B, as Pillow rounds.
    crop: a window; `center`: the largest centred window with the aspect ratio of `resize`, or, without a resize,
        the centred window of the network's own size.
    flip: mirror left to right.
    resize: to the network's height and width; 8-bit pictures are rounded to whole pixel values by it. See `Resize`
        for a letterbox.
    mean, scale: x = (pixel - mean) * scale; the scale *multiplies* (1/255, not 255). One value for all channels, or
        one a channel in the order of `color`. Pixels lie in 0..255, those of 16-bit pictures too.

    Raises:
        RecipeError: mean or scale have other numbers of values than the picture has channels; the place is the
            caller's to add. All else is checked where the recipe is read.
    """

    color: Color = "gray"
    crop: CropBox | Literal["center"] | None = None
    flip: bool = False
    resize: Resize | None = None
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        for name, values in (("mean", self.mean), ("scale", self.scale)):
            if len(values) not in (1, self.channels):
                reason = f"{name} has {len(values)} values, but color '{self.color}' has {self.channels} channel(s)"
                raise RecipeError(reason, remedy=f"give one value, or {self.channels}")

    @property
    def channels(self) -> int:
        """Channels of the network's input: 1 or 3."""
        return 1 if self.color == "gray" else 3

    @classmethod
    def from_recipe(cls, written: WrittenPreprocess | None, shape: Sequence[int]) -> Preprocess:
        """From the recipe's `preprocess`; None gives the recipe's defaults.

        Args:
            shape: of the network's input; an omitted color is `rgb` where it has three channels, else `gray`.

        Raises:
            RecipeError: as the class.
        """
        from nnkit.recipe.inputs import CropRectangle
        from nnkit.recipe.inputs import Preprocess as WrittenPreprocess

        written = written or WrittenPreprocess()
        crop, normalization = written.crop, written.normalization
        resize = written.resize
        return cls(
            color=written.color or normalization.color or ("rgb" if len(shape) == 4 and shape[1] == 3 else "gray"),
            crop=CropBox(crop.left, crop.top, crop.width, crop.height) if isinstance(crop, CropRectangle) else crop,
            flip=written.flip,
            resize=None if resize is None else Resize(*resize.size, resize.filter, resize.letterbox, resize.fill),
            mean=normalization.mean,
            scale=normalization.scale,
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
        if shape[1] not in (1, 3) and shape[3] in (1, 3):
            remedy = "its channels are last: write layout: nhwc for the input (model.inputs)"
        raise RecipeError(reason, where=where, remedy=remedy)
    height, width = int(shape[2]), int(shape[3])
    resize = preprocess.resize
    if resize is not None and (resize.height, resize.width) != (height, width):
        reason = f"resize gives {resize.height} x {resize.width} pixels (height x width), the input is {shown}"
        raise RecipeError(reason, where=where, remedy=f"use size: [{height}, {width}]")
    return height, width
