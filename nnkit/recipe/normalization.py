"""How pixels become numbers, in the words of those who trained the network: presets, and mean and std on [0, 1]."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from nnkit.recipe.base import fault
from nnkit.recipe.types import OneOrMany

PIXEL = 255.0

Preset = Literal["imagenet", "caffe_bgr", "zero_to_one", "minus_one_to_one"]
_FRACTION = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True)
class Normalization:
    """x = (pixel - mean) * scale, pixels in 0..255; color: of those presets that have one."""

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    color: Literal["gray", "rgb", "bgr"] | None = None


def on_unit_interval(
    mean: tuple[float, ...], std: tuple[float, ...], color: Literal["rgb"] | None = None
) -> Normalization:
    """torchvision's `Normalize` behind `ToTensor`: x = (pixel / 255 - mean) / std."""
    return Normalization(tuple(PIXEL * each for each in mean), tuple(1.0 / (PIXEL * each) for each in std), color)


PRESETS: Mapping[Preset, Normalization] = {
    "imagenet": on_unit_interval((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "rgb"),
    "caffe_bgr": Normalization((104.0, 117.0, 123.0), (1.0,), "bgr"),
    "zero_to_one": Normalization((0.0,), (1.0 / PIXEL,)),
    "minus_one_to_one": Normalization((127.5,), (1.0 / 127.5,)),
}


def _fraction(value: Any) -> Any:
    """`1/255` as a number; anything else as it is."""
    match = _FRACTION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    if float(match[2]) == 0.0:
        raise fault(f"'{value}' divides by zero", "write a fraction such as 1/255")
    return float(match[1]) / float(match[2])


def _positive(value: float) -> float:
    if value <= 0.0:
        raise fault(f"a standard deviation of {value:g}", "write the training's, which is above 0, e.g. 0.229")
    return value


def _nonzero(value: float) -> float:
    if value == 0.0:
        raise fault("a scale of 0 would erase the image", "write the factor that follows the mean, e.g. 0.0078125")
    return value


_PATTERN = {"type": "string", "pattern": r"^\s*-?\d+(\.\d+)?\s*/\s*\d+(\.\d+)?\s*$"}


def _as_schema(**number: Any) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "number", **number}, _PATTERN]})


_Mean = Annotated[float, BeforeValidator(_fraction), _as_schema()]
_Scale = Annotated[float, BeforeValidator(_fraction), AfterValidator(_nonzero), _as_schema(**{"not": {"const": 0}})]
_Deviation = Annotated[float, BeforeValidator(_fraction), AfterValidator(_positive), _as_schema(exclusiveMinimum=0)]
ChannelMeans = Annotated[tuple[_Mean, ...], Field(min_length=1, max_length=3), OneOrMany()]
ChannelScales = Annotated[tuple[_Scale, ...], Field(min_length=1, max_length=3), OneOrMany()]
ChannelDeviations = Annotated[tuple[_Deviation, ...], Field(min_length=1, max_length=3), OneOrMany()]
