"""The `model` section: the network's file, and how an image becomes each of its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Literal

from pydantic import Field, model_validator

from nnkit.recipe.base import Fault, RecipeModel, fault, faults
from nnkit.recipe.custom_layers import CustomLayer, Side
from nnkit.recipe.model_formats import FORMAT_OF_SUFFIX, ModelFormat, remedy_for
from nnkit.recipe.normalization import (
    PIXEL,
    PRESETS,
    ChannelDeviations,
    ChannelMeans,
    ChannelScales,
    Normalization,
    Preset,
    on_unit_interval,
)
from nnkit.recipe.types import PathGlobs, RecipePath

MAX_INPUT_VALUES = 1 << 28
_LARGEST_STD = 2.0  # of pixels in 0 to 1 it is at most 0.5; some divide by 1

Color = Literal["gray", "rgb", "bgr"]
ResizeFilter = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
CHANNELS: Mapping[str, int] = {"gray": 1, "rgb": 3, "bgr": 3}


class CropRectangle(RecipeModel):
    """A fixed part of the image, in pixels of the upright image (the EXIF orientation is applied first)."""

    left: int = Field(ge=0, description="First column that is kept.")
    top: int = Field(ge=0, description="First row that is kept.")
    width: Side = Field(description="Columns kept.")
    height: Side = Field(description="Rows kept.")


class Resize(RecipeModel):
    """Scaling to the size of the network's input."""

    size: tuple[Side, Side] = Field(description="Height and width in pixels.", examples=[[128, 128]])
    filter: ResizeFilter = Field(
        default="bilinear",
        description="Pillow's resizer of this name. When it shrinks an image, every one but `nearest` averages "
        "over the source area, unlike OpenCV's of the same name.",
    )
    letterbox: bool = Field(
        default=False,
        description="Keep the aspect ratio: scale until one side fits, and put the image in the middle.",
    )
    fill: int = Field(
        default=0, ge=0, le=255, description="Gray level of what a letterbox leaves over; 114 is YOLO's."
    )


class Preprocess(RecipeModel):
    """From an image file to the network's input: colour, crop, flip, resize, then (pixel - mean) * scale.

    With `std` it is (pixel / 255 - mean) / std, as torchvision has it; `preset` names what many networks take.
    """

    preset: Preset | None = Field(
        default=None,
        description="Instead of `mean`, `scale` and `std`. `imagenet`: rgb, torchvision's mean and std; `caffe_bgr`: "
        "bgr minus 104, 117, 123; `zero_to_one`: pixels / 255; `minus_one_to_one`: pixels / 127.5 - 1.",
        examples=["imagenet"],
    )

    color: Color | None = Field(
        default=None,
        description="Channels and their order, as the network was trained. `null`: `rgb` for an input of three "
        "channels, else `gray`. Gray from colour: 0.299 R + 0.587 G + 0.114 B.",
        examples=["gray"],
    )
    crop: Literal["center"] | CropRectangle | None = Field(
        default=None,
        description="Part of the image that is used: a rectangle; `center`: the largest centred part with the aspect "
        "ratio of `resize`, or without a resize the centred part of the input's size; `null`: the whole image.",
        examples=[{"left": 0, "top": 0, "width": 96, "height": 112}],
    )
    flip: bool = Field(default=False, description="Mirror left and right, after the crop.")
    resize: Resize | None = Field(
        default=None, description="Scaling after the crop; `null`: the image must have the input's size already."
    )
    mean: ChannelMeans = Field(
        default=(0.0,),
        description="Subtracted from the pixels, which lie in 0 to 255, or with `std` in 0 to 1: one number, or one "
        "for each channel in the order of `color`.",
        examples=[[0.0]],
    )
    scale: ChannelScales = Field(
        default=(1.0,),
        description="Factor on what is left (1/255, not 255): one number, or one for each channel; not 0. A fraction "
        "may be written as one.",
        examples=[0.0078125],
    )
    std: ChannelDeviations | None = Field(
        default=None,
        description="Instead of `scale`: the standard deviation that pixels in 0 to 1 are divided by after `mean`, "
        "as torchvision's `Normalize` has both.",
        examples=[[0.229, 0.224, 0.225]],
    )

    @model_validator(mode="after")
    def _channels_agree(self) -> Preprocess:
        problems = [*_normalization_faults(self)]
        if problems:
            raise faults(problems)
        color = self.color or self.normalization.color
        if color is not None:
            _check_channels(self, CHANNELS[color], f"color: {color}", ())
        return self

    @property
    def normalization(self) -> Normalization:
        """Mean and scale on pixels in 0..255, however they are written."""
        if self.preset is not None:
            return PRESETS[self.preset]
        if self.std is not None:
            return on_unit_interval(self.mean, self.std)
        return Normalization(self.mean, self.scale)


def _normalization_faults(preprocess: Preprocess) -> Iterator[Fault]:
    """Two ways of saying one thing, and numbers that are on another scale than they are read."""
    given = [key for key in ("mean", "scale", "std") if getattr(preprocess, key) != _field_default(key)]
    if preprocess.preset is not None:
        color = PRESETS[preprocess.preset].color
        for key in given:
            yield Fault((key,), f"preset: {preprocess.preset} says the {key} already", "keep one of the two")
        if color is not None and preprocess.color not in (None, color):
            remedy = f"write color: {color}, or mean and std instead of the preset"
            yield Fault(("color",), f"preset: {preprocess.preset} is of {color} images", remedy)
        return
    mean = [f"{each:g}" for each in preprocess.mean]
    shown = mean[0] if len(mean) == 1 else f"[{', '.join(mean)}]"
    if preprocess.std is not None:
        if "scale" in given:
            yield Fault(("scale",), "scale and std say the same twice", "keep std, with mean on pixels in 0 to 1")
        if max(map(abs, preprocess.mean)) > 1.0 or max(preprocess.std) > _LARGEST_STD:
            divided = ", ".join(f"{each / PIXEL:.4g}" for each in preprocess.mean)
            below = ", ".join(f"{each / PIXEL:.4g}" for each in preprocess.std)
            yield Fault(
                ("std",),
                f"with std, mean and std are of pixels in 0 to 1, but mean is {shown}",
                f"divide both by 255: mean: [{divided}], std: [{below}]",
            )
    elif "scale" not in given and any(preprocess.mean) and max(map(abs, preprocess.mean)) <= 1.0:
        yield Fault(
            ("mean",),
            f"a mean of {shown} on pixels in 0 to 255 changes nothing",
            "add the std of the training (std: [0.229, 0.224, 0.225]), or write the mean of pixels in 0 to 255",
        )


def _field_default(key: str) -> object:
    return Preprocess.model_fields[key].default


def _check_channels(preprocess: Preprocess, channels: int, why: str, at: tuple[str | int, ...]) -> None:
    problems = [
        Fault(
            (*at, key),
            f"{key} has {len(values)} numbers, but {why} has {channels} channel{'s' if channels > 1 else ''}",
            f"give one number, or {channels}" if channels > 1 else "give one number",
        )
        for key, values in (("mean", preprocess.mean), ("scale", preprocess.scale), ("std", preprocess.std or (1.0,)))
        if len(values) not in (1, channels)
    ]
    if problems:
        raise faults(problems)


class CalibrationImages(RecipeModel):
    """Images whose activations set the formats of quantisation."""

    images: PathGlobs = Field(
        description="Images (or `.npy` inputs in real units): a path or glob, or a list of them.",
        examples=["faces/*.pgm"],
    )
    count: int | None = Field(
        default=None, ge=1, description="How many are used, spread evenly over the list; `null`: all."
    )


class InputSpec(RecipeModel):
    """One input of the network."""

    shape: tuple[Side, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=6,
        description="Shape in the model's file, batch first, of which the batch is 1; needed where it leaves sizes "
        "open. `null`: as in the model.",
        examples=[[1, 1, 128, 128]],
    )
    layout: Literal["nchw", "nhwc"] = Field(
        default="nchw",
        description="Order of the input in an ONNX file. `nhwc`: channels last, as TensorFlow has it; nnkit takes it "
        "as [1, channels, height, width], and the Transpose that such networks begin with falls away.",
    )
    preprocess: Preprocess | None = Field(
        default=None,
        description="How an image becomes this input. `null`: pixels as they are, of an image of the input's size.",
    )
    calibration: CalibrationImages | None = Field(
        default=None, description="Images for calibration of this input; not needed with a calibration table."
    )

    @model_validator(mode="after")
    def _shape_agrees(self) -> InputSpec:
        if self.shape is None:
            return self
        _check_size(self.shape)
        if self.preprocess is not None:
            shape = self.shape
            if self.layout == "nhwc" and len(shape) == 4:
                shape = (shape[0], shape[3], shape[1], shape[2])
            _check_image_shape(shape, self.preprocess)
        return self


def _check_size(shape: tuple[int, ...]) -> None:
    values = 1
    for side in shape:
        values *= side
    if values > MAX_INPUT_VALUES:
        raise fault(f"the shape holds {values:,} values", "check the shape", ("shape",))
    if len(shape) == 4 and shape[0] != 1:
        reason = f"the batch (first number of the shape) is {shape[0]}; a deployed network takes one input at a time"
        raise fault(reason, "write 1 there", ("shape", 0))


def looks_channels_last(shape: Sequence[int | None]) -> bool:
    """Whether an input of that shape is an image only if its channels are last."""
    images = set(CHANNELS.values())
    return len(shape) == 4 and shape[1] not in images and shape[3] in images


def _check_image_shape(shape: tuple[int, ...], preprocess: Preprocess) -> None:
    """An image needs [1, C, H, W]; colour, mean, scale, crop and resize must lead to that."""
    if len(shape) != 4:
        reason = f"an input that is made from images has 4 dimensions, but the shape has {len(shape)}"
        raise fault(reason, "write [1, channels, height, width]", ("shape",))
    _, channels, height, width = shape
    if looks_channels_last(shape):
        reason = f"an image has 1 or 3 channels, but the shape has {channels}, and {width} at its end"
        raise fault(reason, "add `layout: nhwc`", ("shape", 1))
    problems: list[Fault] = []
    color = preprocess.color or preprocess.normalization.color
    if color is not None and CHANNELS[color] != channels:
        fitting = " or ".join(color for color, count in CHANNELS.items() if count == channels)
        wanted = CHANNELS[color]
        reason = f"color {color} gives {wanted} channel{'s' if wanted > 1 else ''}, the shape has {channels}"
        problems.append(
            Fault(
                ("preprocess", "color"),
                reason,
                f"write {fitting}" if fitting else "correct the shape's second number",
            )
        )
    if preprocess.resize is not None and preprocess.resize.size != (height, width):
        given = list(preprocess.resize.size)
        reason = f"resize gives {given} (height, width), but the input is {[height, width]}"
        problems.append(Fault(("preprocess", "resize", "size"), reason, f"write size: {[height, width]}"))
    crop = preprocess.crop
    if preprocess.resize is None and isinstance(crop, CropRectangle) and (crop.height, crop.width) != (height, width):
        reason = f"the crop is {crop.height} high and {crop.width} wide, but the input is {height} x {width}"
        problems.append(Fault(("preprocess", "crop"), reason, f"add resize: {{size: {[height, width]}}}"))
    if problems:
        raise faults(problems)
    if color is None:
        if channels not in (1, 3):
            reason = f"an image has 1 or 3 channels, but the shape has {channels}"
            raise fault(reason, "correct the shape, or remove preprocess and give .npy inputs", ("shape", 1))
        _check_channels(preprocess, channels, "the input", ("preprocess",))


_ARTICLES = {"onnx": "an ONNX", "tflite": "a TFLite"}


class ModelSection(RecipeModel):
    """The trained network."""

    path: RecipePath = Field(
        description="The network: `.onnx`, `.tflite`, or `.prototxt` for Caffe.", examples=["net.onnx"]
    )
    format: ModelFormat | None = Field(
        default=None, description="`null`: as the file's suffix says; needed for any other suffix.", examples=["onnx"]
    )
    weights: RecipePath | None = Field(
        default=None, description="Caffe only: the `.caffemodel`.", examples=["net.caffemodel"]
    )
    simplify: bool = Field(
        default=True, description="Simplify the imported graph once (constant folding, shape inference by onnxsim)."
    )
    dequantize: bool = Field(
        default=False,
        description="Of a network that is quantised already (QDQ, QOperator, a quantised TFLite file): take the "
        "float network that its integers stand for, and quantise that anew. For targets that cannot keep them.",
    )
    custom_layers: Mapping[str, CustomLayer] = Field(
        default={},
        description="Caffe only: what layers of your own compute, by globs over layer names. They are of `type: "
        '"Custom"`, or of any type that nnkit does not know, and run on the CPU.',
    )
    inputs: Mapping[str, InputSpec] = Field(
        default={}, description="By input name; an input that is not listed is taken as the model has it."
    )

    @model_validator(mode="after")
    def _format_and_weights(self) -> ModelSection:
        if self.format is None:
            self._infer_format()
        if self.format == "caffe" and self.weights is None:
            reason = "a Caffe network needs its weights beside the prototxt"
            raise fault(reason, "add `weights: net.caffemodel`", ("path",))
        turned = next((name for name, spec in self.inputs.items() if spec.layout == "nhwc"), None)
        if self.format != "onnx" and turned is not None:
            reason = "inputs of Caffe networks have their channels first, and those of TFLite files are taken so"
            raise fault(reason, "remove `layout`", ("inputs", turned, "layout"))
        if self.format != "caffe" and self.custom_layers:
            raise fault("custom_layers are layers of a prototxt", "remove `custom_layers`", ("custom_layers",))
        if self.format is not None and self.format != "caffe" and self.weights is not None:
            raise fault(f"{_ARTICLES[self.format]} file holds its weights itself", "remove `weights`", ("weights",))
        return self

    def _infer_format(self) -> None:
        """Part of validation, before anyone sees the frozen model: it always has a format."""
        inferred = FORMAT_OF_SUFFIX.get(PurePath(self.path.text).suffix.lower())
        if inferred is None:
            reason = f"the format of '{self.path}' cannot be told from its name"
            raise fault(reason, f"{remedy_for(self.path.text)}; or add `format: onnx`", ("path",))
        object.__setattr__(self, "format", inferred)
